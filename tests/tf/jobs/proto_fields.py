"""Print the number of each field of the messages that we know, as this TensorFlow has them."""

import json

from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.core.framework import allocation_description_pb2, function_pb2, graph_pb2
from tensorflow.core.profiler import profile_pb2, tfprof_log_pb2, tfprof_output_pb2
from tensorflow.core.protobuf import config_pb2, tensor_bundle_pb2
from tensorflow.python.profiler import profiler_v2  # noqa: F401  # registers xplane.proto
from tensorflow.tsl.profiler.protobuf import profiler_options_pb2, xplane_pb2

modules = [allocation_description_pb2, function_pb2, graph_pb2, config_pb2, hlo_pb2, xplane_pb2]
# TensorFlow has a copy of pprof's profile.proto.
modules += [profile_pb2, profiler_options_pb2, tensor_bundle_pb2, tfprof_log_pb2, tfprof_output_pb2]
files = [module.DESCRIPTOR for module in modules]
fields = {}
while files:
    file = files.pop()
    files += file.dependencies
    for name, message in file.message_types_by_name.items():
        fields[name] = {field.name: field.number for field in message.fields}
print(json.dumps(fields))
