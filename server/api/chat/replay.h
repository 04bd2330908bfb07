/* replay: POST /v1/replay, a request that was made once, made again with the seeds of its answer, and whether the
 * bytes are the same. */
#ifndef NOISED_API_REPLAY_H
#define NOISED_API_REPLAY_H

#include "server/api/completions/request.h"

extern const FieldList replay_fields;

#endif
