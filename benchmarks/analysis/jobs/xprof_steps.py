"""Print what xprof says of the steps of an XSpace as JSON: `xprof_steps.py FILE`.

Means in ms by the names of its input pipeline analyzer, and its warnings.
"""

import json
import sys

from xprof.convert import raw_to_tool_data

content, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "input_pipeline_analyzer", {})
parts = json.loads(content)
facts = next((each["p"] for each in parts if "steptime_ms_average" in each.get("p", {})), {})
said = [
    cell["v"]
    for each in parts
    for row in each.get("rows", ())
    for cell in row["c"]
    if str(cell.get("v", "")).startswith("No step marker")
]
means = {name: float(value) for name, value in facts.items() if name.endswith("_ms_avg")}
step_ms = float(facts.get("steptime_ms_average", 0))
print(json.dumps({"step_ms": step_ms, "means": means, "said": said}))
