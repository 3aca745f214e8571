"""Fusions as one would write them down, one list at a time."""


def round_robin(lists):
    lists, order = [list(docnos) for docnos in lists], []
    while any(lists):
        for docnos in lists:
            while docnos and docnos[0] in order:
                docnos.pop(0)
            if docnos:
                order.append(docnos.pop(0))
    return order
