"""Reads the tables of goroutines with DuckDB and pandas, and says as JSON what is in them."""
import json
import sys

import duckdb
import pandas

states, wakeups = sys.argv[1:]
ns = duckdb.sql(f"select state, sum(duration_ns) from read_parquet('{states}') group by state").fetchall()
longest = duckdb.sql(f"""select place, waited_place from read_parquet('{wakeups}') where not birth and reason = 'sync'
    group by all order by sum(waited_ns) desc limit 1""").fetchone()
json.dump({
    "rows": duckdb.sql(f"select count(*) from read_parquet('{states}')").fetchone()[0],
    "pandas": len(pandas.read_parquet(states)),
    "ns": {state: int(n) for state, n in ns},
    "wakeups": duckdb.sql(f"select count(*) from read_parquet('{wakeups}')").fetchone()[0],
    "births": duckdb.sql(f"select count(*) from read_parquet('{wakeups}') where birth").fetchone()[0],
    "longest": longest[0],
    "longestwaited": longest[1],
}, sys.stdout)
