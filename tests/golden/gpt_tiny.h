// A tiny GPT-2 as Hugging Face computes it in double precision. Written by gpt_tiny.py.
#pragma once

#include <array>
#include <string_view>

namespace mstrain::golden {

inline constexpr double kGptLoss = 3.0713327974694788;
// Of sample 1 at the last position.
inline constexpr std::array<double, 11> kGptLogits{
    0.38265683210938467,   -0.78476239985541207, -1.274667642643418,   1.522969749955561,
    -0.087761029043324557, 1.1414623992021748,   -0.23996944547171367, -2.2227004353917561,
    1.353261879625802,     -0.48332625191737588, -0.47268129706250173};

struct GptGradient {
  std::string_view name;
  double norm;    // of all elements
  double middle;  // element number count / 2
};
// In the order of the streams.
inline constexpr GptGradient kGptGradients[] = {
    {"transformer.wte.weight", 1.4475720728689752, -0.0072547769957615124},
    {"transformer.wpe.weight", 0.55379065634036184, 0.0084790131820038691},
    {"transformer.h.0.ln_1.weight", 0.2296552803942653, 0.011024241769267824},
    {"transformer.h.0.ln_1.bias", 0.19391616555114699, -0.018160515030750942},
    {"transformer.h.0.attn.c_attn.weight", 0.72871236930376726, -0.041057784629428731},
    {"transformer.h.0.attn.c_attn.bias", 0.18294192146173185, -1.0191500421363742e-17},
    {"transformer.h.0.attn.c_proj.weight", 0.70676468930625425, 0.0033209557305997838},
    {"transformer.h.0.attn.c_proj.bias", 0.27049650167103978, -0.0057248219577546652},
    {"transformer.h.0.ln_2.weight", 0.22426378555907736, -0.022352355660813988},
    {"transformer.h.0.ln_2.bias", 0.28427261882668303, -0.0093322684524297615},
    {"transformer.h.0.mlp.c_fc.weight", 0.912852430797367, -0.033310102755075767},
    {"transformer.h.0.mlp.c_fc.bias", 0.2647543883836353, 0.035045328211970664},
    {"transformer.h.0.mlp.c_proj.weight", 1.2283914080977587, 0.035750496531213628},
    {"transformer.h.0.mlp.c_proj.bias", 0.21072594341417245, 0.023240615829874474},
    {"transformer.h.1.ln_1.weight", 0.15091009306511738, -0.025355908615542308},
    {"transformer.h.1.ln_1.bias", 0.22631037758034397, 0.042313839682466672},
    {"transformer.h.1.attn.c_attn.weight", 0.50620066538975306, 0.0053553816129168416},
    {"transformer.h.1.attn.c_attn.bias", 0.19882231395386316, 1.5585406229479126e-18},
    {"transformer.h.1.attn.c_proj.weight", 0.29346669305747497, 0.00035151559667619337},
    {"transformer.h.1.attn.c_proj.bias", 0.16117652742798025, 6.0520523159414766e-05},
    {"transformer.h.1.ln_2.weight", 0.20387333194502066, 0.0053962680469128305},
    {"transformer.h.1.ln_2.bias", 0.22664280883518603, -0.024899984001061616},
    {"transformer.h.1.mlp.c_fc.weight", 0.8226199395305851, 0.0049231820628029867},
    {"transformer.h.1.mlp.c_fc.bias", 0.23124688785185024, 0.042045193333849151},
    {"transformer.h.1.mlp.c_proj.weight", 0.81586903426699864, -0.0026208796085592906},
    {"transformer.h.1.mlp.c_proj.bias", 0.1647187529365948, -0.018213035454870637},
    {"transformer.ln_f.weight", 0.75773208018856342, 0.023152637255740953},
    {"transformer.ln_f.bias", 0.57697039807293371, -0.090699937183570056},
};

}  // namespace mstrain::golden
