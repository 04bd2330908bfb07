/* embeddings: POST /v1/embeddings, OpenAI's request and answer, and POST /v1/rerank, which compares them. An embedding
 * is a row of the last hidden layer after the last norm, or the mean of all of the text's, at unit length. Without a
 * seed there is no noise in it, so that clients that know nothing of seeds get the same vector for the same text. */
#ifndef NOISED_API_EMBEDDINGS_H
#define NOISED_API_EMBEDDINGS_H

#include "server/api/pooling/pooling.h"

extern const AnswerKind embeddings_answer, rerank_answer; /* rerank.c */
extern const FieldList embeddings_fields, rerank_fields;

/* What the two have in common: whether the model has embeddings, and how a text's is pooled. */
int embeddings_settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e);

#endif
