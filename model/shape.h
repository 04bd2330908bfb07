/* shape: what follows from a config: heads, scales and what the cache holds. The config must be one that config_check
 * lets pass. */
#ifndef NOISED_SHAPE_H
#define NOISED_SHAPE_H

#include "base/err.h"
#include "model/config.h"

HeadShape config_heads(const Config *c);      /* after SAS and with the mean of conditioned noise, if any */
HeadShape config_base_heads(const Config *c); /* before either */
/* The angle by which pair k of a head of `dim` turns from one position to the next: theta^(-2 k / dim), scaled as
 * rope_scaling says. llama3: slow pairs are divided by the factor, fast ones stay, between them it goes smoothly. */
float config_rope_frequency(const Config *c, int k, int dim);
float config_score_scale(const Config *c); /* of q . k: 1 / sqrt(dimension of the dotted vectors), unless unscaled */
int config_noise_heads(const Config *c);   /* distributions per layer: 1 (scope layer) or heads */
/* Whether anything is drawn at this noise_scale, a factor on sigma: at 0 the components of a mixture still are. */
bool config_noise_acts(const Config *c, float scale);

/* COMPACT for a kind with a compact form, without SAS (mla and tpa, as their papers have it); EXPANDED otherwise. */
KvForm config_kv_form(const Config *c);
/* Whether a cache of this form is possible at all: only causal networks have one, and conditioned noise keeps a number
 * with every expanded key. */
int config_check_kv_form(const Config *c, KvForm form, Err *err);
int config_compact_width(const Config *c); /* floats of a compact row */

#endif
