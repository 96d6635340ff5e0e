"""One self-contained HTML file about a fitted model."""

from acova.report.exports import write_numbers
from acova.report.page import make_result, render_report, write_page, write_report

__all__ = ["make_result", "render_report", "write_numbers", "write_page", "write_report"]
