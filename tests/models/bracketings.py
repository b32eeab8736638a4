"""All binary bracketings of a few tokens, open at the top or not."""


def all_attachments(length):
    """Every sequence of attachments of some tokens: to itself, or to the last token of a constituent on the stack."""
    found = [([], [])]
    for token in range(length):
        found = [
            ([*labels, label], [*[each for each in stack if each < label], token])
            for labels, stack in found
            for label in [*stack, token]
        ]
    return [labels for labels, _ in found]


def spans_of(attachments):
    """The spans of two tokens or more that attachments close: the reverse of `attachments_of`."""
    stack, found = [], []
    for token, label in enumerate(attachments):
        start = token
        while stack and stack[-1][1] > label and label != token:
            start, _ = stack.pop()
            found.append((start, token + 1))
        stack.append((start, token + 1))
    return sorted(found)


def all_bracketings(length):
    """The spans that they close, as a system gives them."""
    return [tuple((*span, "X") for span in spans_of(labels)) for labels in all_attachments(length)]
