"""Files: written whole or not at all, and read without running anything."""

from gibbs_dp.io.atomic import DamagedFileError as DamagedFileError
from gibbs_dp.io.atomic import atomic_write as atomic_write
from gibbs_dp.io.atomic import json_row as json_row
from gibbs_dp.io.atomic import parse_json as parse_json
from gibbs_dp.io.atomic import printable as printable
from gibbs_dp.io.atomic import reason as reason
from gibbs_dp.io.atomic import save_rows as save_rows
from gibbs_dp.io.atomic import shown as shown
from gibbs_dp.io.foreign import Group as Group
from gibbs_dp.io.foreign import NoGroupError as NoGroupError
from gibbs_dp.io.foreign import Variable as Variable
from gibbs_dp.io.foreign import read_group as read_group
from gibbs_dp.io.netcdf import Contents as Contents
from gibbs_dp.io.netcdf import load_netcdf as load_netcdf
from gibbs_dp.io.netcdf import save_netcdf as save_netcdf
from gibbs_dp.io.records import load_record as load_record
from gibbs_dp.io.records import save_record as save_record
from gibbs_dp.io.say import Say as Say
from gibbs_dp.io.say import silent as silent
