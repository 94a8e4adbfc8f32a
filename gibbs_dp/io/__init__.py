"""Files: written whole or not at all, and read without running anything."""

from gibbs_dp.io.files import DamagedFileError as DamagedFileError
from gibbs_dp.io.files import Say as Say
from gibbs_dp.io.files import atomic_write as atomic_write
from gibbs_dp.io.files import json_row as json_row
from gibbs_dp.io.files import parse_json as parse_json
from gibbs_dp.io.files import printable as printable
from gibbs_dp.io.files import reason as reason
from gibbs_dp.io.files import save_rows as save_rows
from gibbs_dp.io.files import shown as shown
from gibbs_dp.io.files import silent as silent
from gibbs_dp.io.netcdf import Contents as Contents
from gibbs_dp.io.netcdf import Group as Group
from gibbs_dp.io.netcdf import NoGroupError as NoGroupError
from gibbs_dp.io.netcdf import Variable as Variable
from gibbs_dp.io.netcdf import load_netcdf as load_netcdf
from gibbs_dp.io.netcdf import read_group as read_group
from gibbs_dp.io.netcdf import save_netcdf as save_netcdf
from gibbs_dp.io.records import load_record as load_record
from gibbs_dp.io.records import save_record as save_record
