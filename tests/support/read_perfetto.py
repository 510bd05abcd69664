"""read_perfetto.py FILE: reads a Perfetto trace by the definitions that Perfetto publishes
(package `perfetto`), as its importer does, and prints it as JSON: for each track its slices with
begin, end, depth, name and arguments. Ends with an error at the first thing the importer would
complain about: a field that is not defined, an end without a begin, a slice that never ends, a name
that was never interned, an event on a track that nobody described."""

import json
import sys

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p


def known(message):
    assert len(UnknownFieldSet(message)) == 0, f"not defined in {type(message).__name__}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if isinstance(value, Message) else value:
                known(one)


trace = p.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
known(trace)
tracks, names, events, cleared = {}, {}, [], False
for place, packet in enumerate(trace.packet):
    assert packet.trusted_packet_sequence_id == 1
    if packet.sequence_flags & p.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
        cleared = True
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid not in tracks, f"track {track.uuid} twice"
        assert track.parent_uuid in tracks or not track.HasField("parent_uuid")
        tracks[track.uuid] = track
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_event"):
        assert cleared and packet.HasField("timestamp")
        event = packet.track_event
        assert event.track_uuid in tracks, f"nobody described track {event.track_uuid}"
        if event.type != p.TrackEvent.TYPE_SLICE_END:
            assert event.name_iid in names, f"name {event.name_iid} was never given"
        events.append((packet.timestamp, place, event, names.get(event.name_iid)))

# The importer sorts by time, and keeps the order of the file where times are equal.
events.sort(key=lambda event: event[:2])
shown = {uuid: {"name": track.name, "parent": track.parent_uuid, "slices": []}
         for uuid, track in tracks.items()}
stacks = {uuid: [] for uuid in tracks}
for at, _, event, name in events:
    stack, track = stacks[event.track_uuid], shown[event.track_uuid]
    if event.type == p.TrackEvent.TYPE_SLICE_END:
        assert stack, f"an end without a begin at {at}"
        stack.pop()["end"] = at
        continue
    args = {arg.name: arg.string_value or arg.uint_value for arg in event.debug_annotations}
    piece = {"begin": at, "end": at, "depth": len(stack), "name": name, "args": args,
             "category": list(event.categories)}
    track["slices"].append(piece)
    if event.type == p.TrackEvent.TYPE_SLICE_BEGIN:
        stack.append(piece)
    else:
        assert event.type == p.TrackEvent.TYPE_INSTANT
assert not any(stacks.values()), "slices that never end"
json.dump(list(shown.values()), sys.stdout)
