"""Gamma for a purpose: what ``gdp.calibrate`` finds from audits, draws and certificates."""
