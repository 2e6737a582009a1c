"""Random programs in kernel form, for tests of the passes that schedule them."""

import random

LAYOUT = "float32[4] strides [1] on cpu"
_TYPE = "!torch.vtensor<[4],f32>"
# An op that writes into given memory, one that allocates its result itself, and a view.
_CALLS = {
    "extern": ("aten.sinc.default", "%0"),
    "foreign": ("aten.nan_to_num.default", "%0"),
    "view": ("aten.alias.default", "%0"),
}


def kernel_form(seed: int, streams: int = 3, regions: int = 8) -> str:
    """A module with one function in kernel form: regions on random streams, whose calls read what came before."""
    rng = random.Random(seed)
    values, lines, number = ["%x", "%y"], [], 0
    for r in range(regions):
        inputs = sorted(set(rng.choices(values, k=rng.randint(1, 3))))
        inside = [f"%a{r}_{i}" for i in range(len(inputs))]
        body, computed = [], []
        for _ in range(rng.randint(1, 4)):
            name = f"%v{number}"
            number += 1
            if rng.random() < 0.5:
                operands = rng.choices(inside, k=rng.randint(1, 2))
                types = ", ".join([_TYPE] * len(operands))
                body.append(
                    f'      {name} = "anabranch.call_kernel"({", ".join(operands)}) '
                    f'{{callee = @kernel_0, layouts = ["{LAYOUT}"]}} : ({types}) -> {_TYPE}'
                )
            else:
                kind = rng.choice(list(_CALLS))
                callee, arguments = _CALLS[kind]
                body.append(
                    f'      {name} = "anabranch.{"view" if kind == "view" else "extern"}"({rng.choice(inside)}) '
                    f'{{callee = "{callee}", arguments = "{arguments}", layouts = ["{LAYOUT}"]}} : ({_TYPE}) -> {_TYPE}'
                )
            inside.append(name)
            computed.append(name)
        given = [f"%r{r}_{i}" for i in range(len(computed))]
        types = lambda names: ", ".join([_TYPE] * len(names))  # noqa: E731
        arguments = ", ".join(f"%a{r}_{i}: {_TYPE}" for i in range(len(inputs)))
        results = f"{', '.join(given)} = "
        lines += [
            f'    {results}"anabranch.region"({", ".join(inputs)}) ({{',
            f"    ^bb0({arguments}):",
            *body,
            f'      "anabranch.yield"({", ".join(computed)}) : ({types(computed)}) -> ()',
            f"    }}) {{stream = {rng.randrange(streams)} : i64}} : ({types(inputs)}) -> ({types(given)})",
        ]
        values += given
    returned = rng.choices(values, k=2)
    argument = f'{_TYPE} {{anabranch.layout = "{LAYOUT}"}}'
    return "\n".join(
        [
            "module {",
            f"  func.func @main(%x: {argument}, %y: {argument}) -> ({_TYPE}, {_TYPE}) {{",
            *lines,
            f"    return {', '.join(returned)} : {_TYPE}, {_TYPE}",
            "  }",
            "}",
        ]
    )
