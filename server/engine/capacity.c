#include "server/engine/capacity.h"

#include "base/err.h"
#include "base/machine.h"
#include "model/footprint.h"
#include "model/shape.h"
#include "server/engine/kv_pool.h"
#include "server/engine/scheduler.h"

/* By default every sequence may fill its context, as far as a quarter of the memory goes, or half of what is left. */
static int pool_blocks(const Config *c, const EngineOptions *o) {
    if (o->kv_tokens > 0) return kv_blocks(o->kv_tokens);
    int64_t context = kv_blocks(c->max_positions), wanted = context * o->max_batch;
    MachineMemory machine = machine_memory();
    size_t memory = MIN(machine.total / 4, machine.available / 2);
    size_t affordable = memory / (kv_bytes_per_token(c, o->kv_dtype, o->kv_form) * KV_BLOCK);
    return (int)MAX(context, (int64_t)MIN((size_t)wanted, affordable));
}

EngineFootprint engine_footprint(const Model *m, const EngineOptions *o) {
    const Config *c = &m->cfg;
    if (!config_generates(c)) {
        int64_t rows = scheduler_chunk(c, o->prefill_chunk), wanted = rows;
        if (config_pools(c)) wanted = MIN(rows, o->max_batch);
        if (c->task == TASK_FILL_MASK) wanted = MIN(rows, o->max_batch + SCORED_ROWS);
        return (EngineFootprint){.work_bytes = footprint_serving(m, rows, wanted, KV_EXPANDED)};
    }
    int64_t tokens = (int64_t)pool_blocks(c, o) * KV_BLOCK, rows = (int64_t)o->max_batch + o->prefill_chunk;
    return (EngineFootprint){.kv_tokens = (int)tokens,
                             .kv_bytes = (size_t)tokens * kv_bytes_per_token(c, o->kv_dtype, o->kv_form),
                             .work_bytes =
                                 footprint_serving(m, rows, MIN(rows, o->max_batch + SCORED_ROWS), o->kv_form),
                             .draft_bytes = o->draft ? draft_memory(o->draft, m) : 0};
}
