#!/usr/bin/env python3
"""Regenerates data/draw_oracle.json: what TTree::Draw answers for a table of expressions and cuts.

Needs PyROOT (the PyPI package `ROOT`). Usage: draw_oracle.py [OUTPUT]

`x>2?x:y` is not in the table: where the first turn takes x, ROOT 6.40 has not read y, and uses an
earlier entry's.

The tree is filled from a fixed seed. The fixture holds its branches as columns, and for each case
the number of selected values and the contents of a histogram with the given bins, as ROOT filled
it. The Rust test `oracle::columns` evaluates the same cases.
"""

import json
import math
import pathlib
import random
import sys
import tempfile
from array import array

import ROOT

ENTRIES = 60
BINS = 24

# name: (array code, leaf type, dimensions, "n" being the counter of a jagged one)
BRANCHES = {
    "flag": ("B", "O", []),
    "c": ("b", "B", []),
    "uc": ("B", "b", []),
    "s": ("h", "S", []),
    "us": ("H", "s", []),
    "i": ("i", "I", []),
    "u": ("I", "i", []),
    "l": ("q", "L", []),
    "ul": ("Q", "l", []),
    "f": ("f", "F", []),
    "d": ("d", "D", []),
    "x": ("f", "F", [5]),
    "w": ("f", "F", [5]),
    "y": ("i", "I", [3]),
    "z": ("f", "F", [1]),
    "bits": ("H", "s", [4]),
    "on": ("B", "O", [5]),
    "m": ("d", "D", [2, 3]),
    "m2": ("f", "F", [3, 2]),
    "m1": ("f", "F", [2, 1]),
    "t": ("f", "F", [2, 3, 4]),
    "n": ("i", "I", []),
    "j": ("f", "F", ["n"]),
    "j2": ("h", "S", ["n"]),
    "jm": ("i", "I", ["n", 2]),
    "k": ("i", "I", []),
    "kk": ("d", "D", ["k"]),
    "km": ("d", "D", ["k", 3]),
}

ACCESS = """
i; u; l; ul; s; us; c; uc; flag; f; d; x; x[]; x[2]; x[1.7]; y; m; m[1]; m[][1]; m[1][2]; m[1][]
t[1]; t[][1]; t[][][1]; bits; on; j; j[0]; j[2]; j2; jm; jm[][1]; jm[1]; jm[0][1]; kk; km[][2]
x[n]; x[n-1]; j[n-1]; m[i%2]; m[][n]; m[n][1]; jm[n-1][1]
"""

LOOPS = """
x+y; x*w; y+x; x+z; z+x; m+m2; m*x; m+y; y+m; m1+m; m+m1; m+t; t+m; t[1]+y; t[1]+m; t[][1]+m
t[][][1]+m; j+x; x+j; j+kk; kk+j; j*j2; j+z; jm+j; jm+x; j+m; jm+m; jm*m2; jm+kk; jm+km; jm[0]+y
j[0]+kk[0]; j[0]+kk; j+k; x[n]+y; m[i%2]+y; i+x; i*j; n+m; j-d; f*d
"""

ARITHMETIC = """
7/2+i; i/2; i/(n-1); i%3; d%3; -7%3+i; i^2; 2^3^2+i; -2^2+i; i**2; f^0.5; -i; !n; i&3; u|3; n<<2
u>>1; 1+2<<1; 1|2==2; 1&2==0; 2*3*4/5/6; 8/4*2; 5-3+2-1; d-f+x-w; x*w/d; x/w*d; 7%4%3; 10%3/2
2^-1*3; 3*-2%4; i- -1; i--1; 3>2>1; 1==2<3; 3==1<1; 1<=2>=1; 6&3==3; 1||0&&0; 1-2<<3; -i%3
!i==0; 0x1F+i; 1.e-2*i; .5*i; i>2?1:i>1?2:3; n>1?j:kk; j>15?j:-1; i>0?x:y; n>1?1:j; n>1&&kk>0
n>1||kk>0; n>1&&j[1]>0
"""

FUNCTIONS = """
sin(d); cos(x); tan(d); asin(d/100); acos(d); atan(d); atan2(d,f); sinh(f/10); cosh(f/10)
tanh(f); asinh(d); acosh(d); atanh(f/100); exp(d/10); exp(100*d); log(d); log10(u); sqrt(d)
abs(d); fabs(d); sq(d); pow(d,3); pow(f,0.5); min(x,3); max(i,n); int(d); sign(d); fmod(d,3)
floor(d); ceil(d); round(d); trunc(d); rint(d); cbrt(d); hypot(d,f); log2(u); TMath::Abs(d)
TMath::Sqrt(u); TMath::Log(u); TMath::Power(x,2); TMath::Max(x,3); TMath::Min(x,w)
TMath::Pi()*i; TMath::Nint(d); TMath::Floor(d); TMath::Ceil(d); TMath::Sign(d,f)
TMath::Hypot(d,f); TMath::ATan2(d,f); pi*i; TMath::RadToDeg()*f; TMath::Range(-2,2,d)
TMath::Exp(d/10); TMath::IsNaN(d)
"""

SPECIAL = """
Entry$; Entries$; Iteration$; Length$; Length$+j; Iteration$+j; Iteration$+m; j+Entry$
Length$(j); Length$(jm); Length$(j[1]); Length$(m[0]); Length$(i); Length$(j+x); Length$(j*kk)
Length$(x>11); Sum$(j); Sum$(x); Sum$(m*y); Sum$(j*x); Sum$(j>15); Sum$(j[1]); Sum$(i)
Sum$(Iteration$*j); Sum$(Length$*j); Sum$(x*Sum$(j)); Sum$(j+kk); Min$(x); Min$(j); Max$(j)
Max$(kk)-Min$(kk); MinIf$(x,x>3); MaxIf$(x,y>11); MaxIf$(j,n>1); MinIf$(j,kk>0)
Sum$(j)/Length$(j); j-Sum$(j)/Length$(j); Sum$(x>11)>2; Alt$(j[1],-1); Alt$(j,-1); Alt$(kk,-1)+j
j+Alt$(kk,-1); x*Alt$(j[1],0); Alt$(j[1],i); Alt$(x,0)+m; Alt$(j[0]+kk[1],-9)
Sum$(Alt$(kk,-1)*j); Alt$(j,-1)+x
"""

CUTS = """
x | y>0; y | x>3; x | w>0; x | w>0&&x<10; x | 3<w; x | w==w; x | w!=x; x | w<=x; x | w>=2
x | on; x | !on; x | flag; x | n; x | d>0; x | i; x | i%2; x | -i; x | 0.5; x | 0; x | i?2:0
x | x-w; x | (x>0)*w; x | j>0; x | j; x | Iteration$==2; x | Sum$(j)>20; x | Alt$(j,0)>0
x | Alt$(j[1],0)>0; x | z>0; z | x>0; x | m>0; x[2] | w[3]>0; x[2] | w>0; x | w[1]>0; i | x>0
i | j>0; i | j[0]>0; 1 | x>0; Entry$ | x>2; Iteration$ | x>2; Length$ | j>0; Sum$(j) | j>0
j | n>1; j | j2>0; j | j2; j | x>0; j | kk>0; kk | j>0; kk | j[1]>0; j | Sum$(kk)>0; j | log(j)
j | Iteration$<2; m | m2; m | m2>0; m | y>0; y | m>0; i*m | i==1; m[1] | y>0; jm | j>0
jm | j2>0&&jm>0; jm[][1] | j>0; t | m>0; d | flag; d | u>100&&us<40000||c<0; ul | ul>0; l | l<0
bits&15 | bits>>12; f*1e6 | f>0; x | x>1e9; d | 0/0; j[3] | x>0; x | w>0.1||y>100000; x/w | w
x | (w>2)+(w>4); x | isnan(log(w))
"""


def cases():
    """The table, as (expression, cut)."""
    for text in (ACCESS, LOOPS, ARITHMETIC, FUNCTIONS, SPECIAL):
        for line in text.strip().splitlines():
            for expression in line.split(";"):
                yield expression.strip(), ""
    for line in CUTS.strip().splitlines():
        for case in line.split(";"):
            expression, cut = (part.strip() for part in case.split(" | "))
            yield expression, cut


def value(code, rng):
    """A value that three decimals hold exactly enough to be read back."""
    if code in "fd":
        return round(rng.gauss(3, 8), 3)
    low, high = {
        "b": (-128, 127),
        "B": (0, 255),
        "h": (-300, 300),
        "H": (0, 65535),
        "i": (-9, 9),
        "I": (0, 200),
        "q": (-(10**12), 10**12),
        "Q": (0, 10**15),
    }[code]
    return rng.randint(low, high)


def make_tree(path, rng):
    """Writes the tree to a file; answers with its columns."""
    file = ROOT.TFile(path, "recreate")
    tree = ROOT.TTree("T", "oracle")
    buffers, columns = {}, {}
    for name, (code, leaf, dimensions) in BRANCHES.items():
        length = math.prod(6 if isinstance(size, str) else size for size in dimensions)
        buffers[name] = array(code, [0] * length)
        brackets = "".join(f"[{size}]" for size in dimensions)
        tree.Branch(name, buffers[name], f"{name}{brackets}/{leaf}")
        columns[name] = {
            "type": leaf,
            "shape": [size for size in dimensions if not isinstance(size, str)],
            "values": [],
        }
        if any(isinstance(size, str) for size in dimensions):
            columns[name]["offsets"] = [0]
    for _ in range(ENTRIES):
        buffers["n"][0], buffers["k"][0] = rng.randint(0, 4), rng.choice([0, 1, 1, 2, 3, 5])
        for name, (code, leaf, dimensions) in BRANCHES.items():
            sizes = [buffers[size][0] if isinstance(size, str) else size for size in dimensions]
            for at in range(math.prod(sizes)):
                if name not in ("n", "k"):
                    drawn = value(code, rng)
                    buffers[name][at] = drawn % 2 if leaf == "O" else drawn
            column = columns[name]
            for at in range(math.prod(sizes)):
                stored = buffers[name][at]
                # the shortest decimal that gives the single precision number
                column["values"].append(round(stored, 4) if code == "f" else stored)
            if "offsets" in column:
                column["offsets"].append(column["offsets"][-1] + sizes[0])
        tree.Fill()
    tree.Write()
    file.Close()
    return columns


def number(x):
    """JSON has no NaN."""
    return None if math.isnan(x) else x


def run(tree, expression, cut):
    """The answer of TTree::Draw."""
    tree.SetEstimate(100_000)
    selected = tree.Draw(expression, cut, "goff")
    if selected < 0:
        raise ValueError(f"ROOT refuses {expression} where {cut}")
    values = [tree.GetV1()[at] for at in range(selected)]
    finite = [v for v in values if math.isfinite(v)] or [0]
    low, high = min(finite), max(finite)
    # edges on round numbers, some values outside
    step = 10 ** math.floor(math.log10(max(high - low, 1e-3) / BINS)) * 5
    low = math.floor(low / step + 1) * step
    histogram = ROOT.TH1D("h", "", BINS, low, low + BINS * step)
    tree.Draw(f"{expression}>>h", cut, "goff")
    result = {
        "expression": expression,
        "cut": cut,
        "selected": selected,
        "range": [low, low + BINS * step],
        "counts": [number(histogram.GetBinContent(b + 1)) for b in range(BINS)],
        "underflow": number(histogram.GetBinContent(0)),
        "overflow": number(histogram.GetBinContent(BINS + 1)),
        "mean": number(histogram.GetMean()),
        "stddev": number(histogram.GetStdDev()),
    }
    histogram.Delete()
    return result


def main():
    """Writes the fixture."""
    here = pathlib.Path(__file__).parent
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "data/draw_oracle.json"
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kFatal
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/oracle.root"
        columns = make_tree(path, random.Random(20))
        file = ROOT.TFile(path)
        results = [run(file.Get("T"), *case) for case in cases()]
        file.Close()
    lines = [f"    {json.dumps(name)}: {json.dumps(column)}" for name, column in columns.items()]
    with output.open("w") as file:
        file.write('{\n  "root": ' + json.dumps(ROOT.gROOT.GetVersion()) + ",\n")
        file.write(f'  "entries": {ENTRIES},\n  "bins": {BINS},\n  "columns": {{\n')
        file.write(",\n".join(lines) + '\n  },\n  "cases": [\n')
        file.write(",\n".join(f"    {json.dumps(result)}" for result in results))
        file.write("\n  ]\n}\n")


if __name__ == "__main__":
    main()
