"""A billing agent with five tools: it charges overdue invoices, sends receipts and files a report.

The agent's books are a JSON file, so that all its changes can be seen. `docs/boundary.md` rehearses the agent, promotes
it and reads the audit afterwards; a test does the same with the commands below.

    pip install ./clients/python
    umbra serve &
    umbra execution shadow billing --for 2h --reason 'rehearsal'
    UMBRA_AGENT=billing python examples/billing/agent.py books.json
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from umbra_shadow import Umbra

BOOKS = sys.argv[1] if len(sys.argv) > 1 else sys.exit("usage: python examples/billing/agent.py BOOKS.json")
umbra = Umbra()


def books() -> dict[str, Any]:
    with open(BOOKS) as file:
        known: dict[str, Any] = json.load(file)
    return known


def note(change: Callable[[dict[str, Any]], None]) -> None:
    after = books()
    change(after)
    with open(BOOKS, "w") as file:
        json.dump(after, file)


@umbra.tool(effect="read", server="billing")
def overdue_invoices() -> list[dict[str, Any]]:
    return [invoice for invoice in books()["invoices"] if invoice["state"] == "overdue"]


@umbra.tool(effect="read", server="billing")
def customer(id: str) -> dict[str, Any]:
    found: dict[str, Any] = books()["customers"][id]
    return found


@umbra.tool(
    effect="destructive",
    server="billing",
    stub=lambda invoice, amount: {"status": "succeeded", "amount": amount},
)
def charge(invoice: str, amount: float) -> dict[str, Any]:
    def change(books: dict[str, Any]) -> None:
        for one in books["invoices"]:
            if one["id"] == invoice:
                one["state"] = "paid"

    note(change)
    return {"status": "succeeded", "amount": amount}


@umbra.tool(effect="write", server="billing", stub=None)
def send_receipt(to: str, text: str) -> None:
    note(lambda books: books["sent"].append(to))


@umbra.tool(effect="write", server="billing", stub={"filed": True})
def file_report(text: str) -> dict[str, Any]:
    note(lambda books: books["reports"].append(text))
    return {"filed": True}


def main() -> None:
    charged = 0
    for invoice in overdue_invoices():
        result = charge(invoice["id"], invoice["amount"])
        if result["status"] == "succeeded":
            charged += 1
            send_receipt(customer(invoice["customer"])["email"], f"You paid {result['amount']:.2f}.")
    report = f"charged {charged}"
    assert file_report(report)["filed"]
    print(report)


if __name__ == "__main__":
    main()
