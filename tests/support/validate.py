"""validate.py SCHEMA: reads one JSON document for each line of its input and says for each whether
it is of that form, strictly: what the schema does not name must not be there."""

import json
import sys

from jsonschema import Draft202012Validator


def close(schema, alternative=False):
    """A schema for readers lets later versions add fields; a test does not. Fields beside alternatives belong to
    each of them."""
    if isinstance(schema, dict):
        beside = "oneOf" in schema and "properties" in schema
        if "properties" in schema and not alternative:
            schema.setdefault("unevaluatedProperties" if beside else "additionalProperties", False)
        for name, inner in schema.items():
            if beside and name == "oneOf":
                for one in inner:
                    close(one, alternative=True)
            else:
                close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            close(inner)


with open(sys.argv[1], encoding="utf-8") as file:
    form = json.load(file)
Draft202012Validator.check_schema(form)
close(form)
for line in sys.stdin:
    errors = Draft202012Validator(form).iter_errors(json.loads(line))
    print("; ".join(f"{error.json_path}: {error.message}"[:200] for error in errors) or "valid")
