"""The view of jobs over time: what many would otherwise ask of several tables."""

from __future__ import annotations

from tfprobe.query.tables.shapes import RUN_KEY, Shape, Source, real, text, whole

HISTORY = Shape(
    "history",
    "The runs of each job over time, each with its kind of step that took most: a view of other "
    "tables.",
    Source.REPORT,
    (
        *RUN_KEY,
        text("job", "name of the run or, without one, its command"),
        text("started", "launch time, ISO 8601"),
        text("host", "host of the launcher"),
        text("python", "version of Python"),
        text("tensorflow", "version of TensorFlow"),
        text("kind", "kind of step, over all processes"),
        whole("steps", "number of steps in the median"),
        real("step_p50_ns", "median step without the first 16, traced and raised ones"),
        real(
            "change_ratio",
            "growth since the previous run of the job; NULL: none",
        ),
        real("goodput_ratio", "share of productive steps in the time of its processes"),
    ),
)
# The tables that the view is made of.
OF_HISTORY = ("runs", "processes", "works", "steps", "account")
HISTORY_QUERY = """
WITH medians AS (
  SELECT s.run, w.kind, count(*) AS steps, median(s.duration_ns) AS step_p50_ns,
    sum(s.duration_ns) AS spent_ns
  FROM steps s JOIN works w USING (run, process, work)
  WHERE NOT s.sampled AND NOT s.raised AND s.step >= 16
  GROUP BY s.run, w.kind
), versions AS (
  SELECT run, min(python) AS python, min(tensorflow) AS tensorflow FROM processes GROUP BY run
), main AS (
  SELECT r.run, coalesce(r.name, r.command) AS job, r.started, r.host, v.python, v.tensorflow,
    m.kind, m.steps, CAST(m.step_p50_ns AS DOUBLE) AS step_p50_ns
  FROM runs r JOIN medians m USING (run) JOIN versions v USING (run)
  QUALIFY row_number() OVER (PARTITION BY r.run ORDER BY m.spent_ns DESC, m.kind) = 1
), goodput AS (
  SELECT run, sum(ns) FILTER (part = 'productive') / nullif(sum(ns), 0) AS goodput_ratio
  FROM account GROUP BY run
)
SELECT main.*, step_p50_ns / lag(step_p50_ns) OVER (PARTITION BY job ORDER BY started, run) - 1
  AS change_ratio, goodput_ratio
FROM main LEFT JOIN goodput USING (run)
"""
