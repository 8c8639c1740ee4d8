"""A billing agent with five tools: it charges overdue invoices, sends receipts and files a report.

The agent's books are a JSON file, so that all its changes can be seen. `docs/boundary.md` rehearses the agent, promotes
it and reads the audit afterwards; a test does the same with the commands below.

    umbra serve &
    umbra execution shadow billing --for 2h --reason 'rehearsal'
    UMBRA_AGENT=billing python agent.py books.json      (with clients/python on PYTHONPATH)
"""

import json
import sys

import umbra

BOOKS = sys.argv[1]


def books():
    with open(BOOKS) as file:
        return json.load(file)


def note(change):
    after = books()
    change(after)
    with open(BOOKS, "w") as file:
        json.dump(after, file)


@umbra.tool(effect="read", server="billing")
def overdue_invoices() -> list:
    return [invoice for invoice in books()["invoices"] if invoice["state"] == "overdue"]


@umbra.tool(effect="read", server="billing")
def customer(id: str) -> dict:
    return books()["customers"][id]


@umbra.tool(effect="destructive", server="billing", stub=lambda invoice, amount: {"status": "succeeded", "amount": amount})
def charge(invoice: str, amount: float) -> dict:
    def change(books):
        for one in books["invoices"]:
            if one["id"] == invoice:
                one["state"] = "paid"

    note(change)
    return {"status": "succeeded", "amount": amount}


@umbra.tool(effect="write", server="billing", stub=None)
def send_receipt(to: str, text: str) -> None:
    note(lambda books: books["sent"].append(to))


@umbra.tool(effect="write", server="billing", stub={"filed": True})
def file_report(text: str) -> dict:
    note(lambda books: books["reports"].append(text))
    return {"filed": True}


def main():
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
