#include "model/attention/attention.h"

extern const AttentionKind attention_mha, attention_symmetric, attention_pairwise, attention_gqa, attention_mla,
    attention_tpa;

const AttentionKind *const attention_kinds[] = {
    &attention_mha, &attention_symmetric, &attention_pairwise, &attention_gqa, &attention_mla, &attention_tpa, NULL,
};
