"""Reads what was exported with the tools that people read it with, and says as JSON what
they found."""
import json
import sys

import duckdb
import pandas
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

perfetto, csv, parquet = sys.argv[1:]
said = {}

trace = Trace()
with open(perfetto, "rb") as f:
    trace.ParseFromString(f.read())
names, open_slices, requests = {}, {}, {}
slices, deepest, last = 0, 0, {}
# Without a way from the events' clock to BOOTTIME a trace processor drops them.
clocks = trace.packet[0].clock_snapshot
assert {3, 6} <= {c.clock_id for c in clocks.clocks} and clocks.primary_trace_clock == 3
for p in trace.packet[1:]:
    assert not p.HasField("timestamp") or p.timestamp_clock_id == 3
    if p.HasField("track_descriptor"):
        d = p.track_descriptor
        names[d.uuid] = d.name
        if d.HasField("parent_uuid"):
            requests[d.uuid] = 0
        continue
    e = p.track_event
    stack = open_slices.setdefault(e.track_uuid, [])
    assert p.timestamp >= last.get(e.track_uuid, 0), "time goes back on a track"
    last[e.track_uuid] = p.timestamp
    if e.type == TrackEvent.TYPE_SLICE_BEGIN:
        assert e.name and e.track_uuid in names
        stack.append(p.timestamp)
        slices += 1
        deepest = max(deepest, len(stack))
    else:
        assert e.type == TrackEvent.TYPE_SLICE_END
        begun = stack.pop()
        if not stack and e.track_uuid in requests:
            requests[e.track_uuid] += p.timestamp - begun
assert not any(open_slices.values()), "slices that do not end"
said["perfetto"] = {"requests": {names[u].split()[0]: ns for u, ns in requests.items()}, "slices": slices, "deepest": deepest}

of = duckdb.sql(f"""select count(*), sum(duration_ns), sum(list_sum(list_transform(leaves, x -> x.ns))),
    count(*) filter (band = 'tail'), sum(list_sum(list_transform(list_filter(leaves, x -> x.cause <> ''), x -> x.ns))) from read_parquet('{parquet}')""").fetchone()
said["duckdb"] = {"rows": of[0], "ns": int(of[1]), "leaves": int(of[2]), "tail": of[3], "claimed": int(of[4] or 0)}
lines = duckdb.sql(f"select count(distinct request), sum(ns) from read_csv('{csv}')").fetchone()
said["duckdb csv"] = {"rows": lines[0], "ns": int(lines[1])}

table = pandas.read_parquet(parquet)
said["pandas"] = {"rows": len(table), "ns": int(table.duration_ns.sum()), "leaves": int(sum(x["ns"] for list in table.leaves for x in list)), "endpoints": sorted(set(table.endpoint))}
said["pandas csv"] = {"rows": int(pandas.read_csv(csv).request.nunique()), "ns": int(pandas.read_csv(csv).ns.sum())}
json.dump(said, sys.stdout)
