"""validate.py SCHEMA: reads one JSON document for each line of its input and says for each whether
it is of that form, strictly: what the schema does not name must not be there.
validate.py --schemas SCHEMA...: checks that each is a JSON schema, which takes longer than all else."""

import copy
import json
import sys

from jsonschema import Draft202012Validator


def close(schema, is_part=False):
    """A schema for readers lets later versions add fields; a test does not. The fields of a whole with parts
    (alternatives, or a value and its sentence) belong to each part, so only the whole is closed."""
    if isinstance(schema, dict):
        has_parts = "properties" in schema and any(name in schema for name in ("oneOf", "anyOf", "allOf", "$ref"))
        if "properties" in schema and not is_part:
            schema.setdefault("unevaluatedProperties" if has_parts else "additionalProperties", False)
        for name, inner in schema.items():
            if name in ALTERNATIVES and (has_parts or is_part):
                for one in inner:
                    close(one, is_part=True)
            elif name == "$defs":
                for definition, one in inner.items():
                    close(one, is_part=definition.endswith(PART))
            else:
                close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            close(inner)


# The end of the names of definitions that are parts of a whole.
PART = "(part)"


# The keywords of alternatives.
ALTERNATIVES = ("oneOf", "anyOf")


def separate_parts(form):
    """A type that is part of a whole gets a second definition, because elsewhere it is a whole. Its alternatives are
    parts too."""
    definitions = form.get("$defs", {})

    def refer_to_part(place):
        name = place["$ref"].removeprefix("#/$defs/")
        place["$ref"] += PART
        if name + PART not in definitions:
            part = definitions[name + PART] = copy.deepcopy(definitions[name])
            for one in (one for keyword in ALTERNATIVES for one in part.get(keyword, [])):
                if "$ref" in one:
                    refer_to_part(one)

    for whole in list(definitions.values()):
        for part in whole.get("allOf", []):
            refer_to_part(part)


def load(name):
    with open(name, encoding="utf-8") as file:
        return json.load(file)


if sys.argv[1] == "--schemas":
    for name in sys.argv[2:]:
        Draft202012Validator.check_schema(load(name))
    sys.exit()
form = load(sys.argv[1])
separate_parts(form)
close(form)
validator = Draft202012Validator(form)
for line in sys.stdin:
    errors = validator.iter_errors(json.loads(line))
    print("; ".join(f"{error.json_path}: {error.message}"[:200] for error in errors) or "valid")
