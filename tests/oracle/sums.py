"""Sums of objectives, nearly linear and steep ones too, that prices have to solve on one pool and on servers."""

import fairopt as fo

SUMS: list[fo.Objective] = [
    fo.AlphaFair(0.5) + 0.1 * fo.Total(),
    fo.AlphaFair(2) + fo.AlphaFair(0.5, fo.Tasks()),
    fo.AlphaFair(1) + 100 * fo.Total(fo.Tasks()),
    fo.AlphaFair(0.05) + fo.Total(),
    fo.AlphaFair(5) + fo.Total(),
    3 * fo.AlphaFair(1, fo.Tasks()),
]
