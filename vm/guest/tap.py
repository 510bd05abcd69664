"""Claims in TAP."""

failed = 0


def claim(text, good, detail=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'not ok'} - {text}", flush=True)
    for line in str(detail).splitlines() * (not good):
        print(f"#   {line}", flush=True)
