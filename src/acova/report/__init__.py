"""One self-contained HTML file about a fitted model."""

from acova.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
