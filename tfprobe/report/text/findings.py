"""Render advice as text or Markdown: each finding in a few lines, the most important first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tfprobe.analysis.compare.trials import Verdict
from tfprobe.errors import Missing
from tfprobe.findings.engine import QUEUED_LOOPS, Advice
from tfprobe.findings.finding import Evidence, Finding, MeasuredGain, Severity, Subject
from tfprobe.printable import printable
from tfprobe.profile.profile import titled
from tfprobe.report.format import numbers, page
from tfprobe.report.format.gains import cpu_text

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}


def render_advice(advice: Advice, title: str, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe advise`."""
    return page.render(_parts(advice, title), width=width, colour=colour)


def render_advice_markdown(advice: Advice, title: str) -> str:
    """Return advice as one Markdown document."""
    return "\n".join(map(printable, _markdown(advice, title))) + "\n"


def finding_lines(finding: Finding) -> tuple[str, str, str, str, str]:
    """Return the heading, gain, evidence, places and action of a finding, one paragraph each."""
    gain = " · ".join(filter(None, (_subject(finding.subject), describe_gain(finding))))
    evidence = [item for item in finding.evidence if not _is_place(item)]
    # The most expensive op comes first, and only its name is worth the space.
    facts = [_fact(item, named=not index) for index, item in enumerate(evidence)]
    places = (_place(item) for item in finding.evidence if _is_place(item))
    heading = f"{finding.severity.name.lower()}: {finding.title}"
    return heading, gain, "; ".join(facts), " · ".join(places), action_text(finding)


def finding_summary(finding: Finding) -> Iterator[RenderableType]:
    """Yield a finding in two paragraphs: its title with the gain, and the action."""
    gain = finding.gain
    text = Text(f"{finding.severity.name.lower()}", style=_STYLES[finding.severity])
    text.append(f"  {printable(finding.title)}", style="bold")
    if finding.measured:
        text.append(f": {describe_gain(finding)}")
    elif not isinstance(gain, Missing):
        text.append(f": up to {numbers.percent(gain.high_ratio)} of the time")
    yield Padding(text, (0, 0, 0, 2))
    yield page.paragraph(f"→ {action_text(finding)}", indent=4)


def action_text(finding: Finding) -> str:
    """Return what to do, and what `tfprobe try` can do of it."""
    command = try_command(finding)
    return f"{finding.action} ({command})" if command else finding.action


def try_command(finding: Finding) -> str:
    """Return what tries the fixes of a finding, "" if it has none; `-- COMMAND` follows."""
    return f"tfprobe try {' '.join(finding.fixes)}" if finding.fixes else ""


def measured_text(measured: MeasuredGain) -> str:
    """Write what a trial found: `measured +83 % [77, 88]` with the fix."""
    gain = numbers.gain(measured.ratio, measured.low_ratio, measured.high_ratio)
    if measured.verdict is Verdict.UNKNOWN:
        cpu = "" if measured.cpu is None else f", {cpu_text(measured.cpu)}"
        return f"not told apart from chance: {gain}{cpu} ({measured.fix})"
    return f"measured {gain} ({measured.fix})"


def describe_gain(finding: Finding) -> str:
    """Return what trials measured, else the upper bound in share and time, and the likely gain."""
    gain = finding.gain
    if finding.measured:
        return "; ".join(measured_text(one) for one in finding.measured)
    if isinstance(gain, Missing):
        return gain.reason
    bound = f"at most {numbers.percent(gain.high_ratio)}"
    times = f"{numbers.duration(gain.high_ns)} of {numbers.duration(gain.of_ns)}"
    likely = f", likely {numbers.percent(gain.low_ratio)}" if gain.low_ns else ""
    return f"{bound} ({times}){likely}"


def _parts(advice: Advice, title: str) -> Iterator[RenderableType]:
    yield page.heading(title)
    yield page.paragraph(_summary(advice))
    for finding in advice.findings:
        yield page.blank()
        yield from _finding(finding)
    if advice.unchecked:
        yield page.blank()
        yield page.paragraph(_unchecked(advice), style="dim")


def _finding(finding: Finding) -> Iterator[RenderableType]:
    heading, gain, evidence, places, action = finding_lines(finding)
    severity, _, rest = heading.partition(": ")
    text = Text(printable(severity), style=_STYLES[finding.severity])
    text.append(f"  {printable(rest)}", style="bold")
    text.append(f"  {finding.rule}", style="dim")
    yield text
    yield page.paragraph(gain)
    if evidence:
        yield page.paragraph(evidence)
    if places:
        yield page.paragraph(places, style="dim")
    yield page.paragraph(f"→ {action}")


def _summary(advice: Advice) -> str:
    count = len(advice.findings)
    queued = next((rule for rule in advice.unchecked if rule.rule == QUEUED_LOOPS), None)
    if not count and queued is not None:
        return f"Loops of JAX are not judged: {queued.reason}."
    if not count:
        return "No optimization was found."
    facts = ["1 finding" if count == 1 else f"{count} findings"]
    gain = advice.together
    if not isinstance(gain, Missing):
        facts.append(f"together at most {numbers.percent(gain.high_ratio)} of the time")
    if count > 1:
        facts.append("gains overlap: do not add them")
    return "; ".join(facts)


def _unchecked(advice: Advice) -> str:
    count = len(advice.unchecked)
    rules = "1 rule" if count == 1 else f"{count} rules"
    return f"{rules} could not be checked; --json says which and why."


def _subject(subject: Subject) -> str:
    loop = f"{subject.kind} {subject.name}".strip()
    if subject.rank is not None:
        return f"{loop or 'process'}, {titled(f'rank {subject.rank}', subject.program)}"
    if subject.program:
        return ", ".join(filter(None, (loop, titled(f"pid {subject.pid}", subject.program))))
    return loop or (f"process {subject.pid}" if subject.pid is not None else "")


def _is_place(item: Evidence) -> bool:
    return bool(item.command or item.capture)


def _place(item: Evidence) -> str:
    return item.command or f"step {item.step}: {item.capture.rpartition('/')[2]}"


def _fact(item: Evidence, *, named: bool = True) -> str:
    """Return one piece of evidence: its text, its amount, and its place."""
    amount = _amount(item)
    text = f"{item.text}: {amount}" if amount else item.text
    node = item.node if named else ""
    shown = ", ".join(filter(None, (item.iterator, item.source, node)))
    return f"{text} ({shown})" if shown else text


def _amount(item: Evidence) -> str:
    if item.time_ns is not None:
        return numbers.duration(item.time_ns)
    if item.size_bytes is not None:
        return numbers.size(item.size_bytes)
    return "" if item.ratio is None else numbers.percent(item.ratio)


def _markdown(advice: Advice, title: str) -> Iterator[str]:
    yield f"# Advice on {_code(title)}"
    yield ""
    yield f"{_summary(advice)}."
    for finding in advice.findings:
        heading, gain, _, _, action = finding_lines(finding)
        yield from ("", f"## {plain(heading)}", "", f"{plain(gain)} (`{finding.rule}`)", "")
        yield from (f"- {_bullet(item)}" for item in finding.evidence)
        yield from ("", f"**Do:** {plain(action)}")
    if advice.unchecked:
        yield from ("", _unchecked(advice))


def _bullet(item: Evidence) -> str:
    if item.command:
        return _code(item.command)
    return f"step {item.step}: {_code(item.capture)}" if item.capture else plain(_fact(item))


def plain(text: str) -> str:
    """Return text with the characters escaped that Markdown would interpret."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
