/* llama: llama-server's own dialect. POST /completion is a CompletionRequest whose answer looks as that server's does:
 *
 *     {"index":0,"content":...,"tokens":[],"id_slot":-1,"stop":true,"model":...,"tokens_predicted":8,
 *      "tokens_evaluated":7,"generation_settings":{...},"prompt":...,"has_new_line":false,"truncated":false,
 *      "stop_type":"eos"|"limit"|"word","stopping_word":"","tokens_cached":0,"timings":{...},
 *      "completion_probabilities":[...] with n_probs, and what is ours: "seed","noise_seed","system_fingerprint"}
 *
 * Several prompts are an array of these. A stream has an event for each token, or for several whose text stop strings
 * or a character held back, with `stop` false, and one with all of the above and no text behind them; no [DONE].
 *
 * POST /infill is the same with a prompt that has a gap, and POST /apply-template writes a conversation and computes
 * nothing. */
#ifndef NOISED_API_LLAMA_H
#define NOISED_API_LLAMA_H

#include "server/api/completions/response.h"

extern const FieldList llama_fields, infill_fields;

/* A chat's request -> {"prompt": what the model would be given, as a text}. */
extern const FieldList template_fields;
int llama_apply_template(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e);

extern const ResponseForm response_llama;

/* The members of a dense JSON object that the names say, as an object: "a/b" is the member b of the object a, under
 * this name. Names that it does not have are left out. Behind each name is a NUL, behind the last one two. (pick.c) */
void llama_pick(Buffer *out, const char *object, const char *names);

#endif
