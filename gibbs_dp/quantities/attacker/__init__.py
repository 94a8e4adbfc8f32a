"""What an attacker learns from one draw who knows everything but which example was in the data."""

from gibbs_dp.quantities.attacker.quantity import Attacker as Attacker
