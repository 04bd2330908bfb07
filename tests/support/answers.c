#include "tests/support/answers.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void append_all(cJSON *to, const cJSON *from) {
    const cJSON *item;
    cJSON_ArrayForEach(item, from) cJSON_AddItemToArray(to, cJSON_Duplicate(item, true));
}

/* The next piece of a choice; false when it came after the end. */
static bool join(cJSON *choice, const cJSON *piece) {
    static const char *const arrays[] = {"logprobs.tokens", "logprobs.token_logprobs", "logprobs.top_logprobs",
                                         "logprobs.text_offset", "token_ids"};
    const char *before = json_text(choice, "text"), *more = json_text(piece, "text");
    if (!before || !more || json_text(choice, "finish_reason")) return false;
    char *text = xcalloc(1, strlen(before) + strlen(more) + 1);
    strcpy(stpcpy(text, before), more);
    cJSON_ReplaceItemInObjectCaseSensitive(choice, "text", cJSON_CreateString(text));
    free(text);
    for (size_t i = 0; i < COUNTOF(arrays); i++)
        append_all((cJSON *)(uintptr_t)json_at(choice, arrays[i]), json_at(piece, arrays[i]));
    cJSON_ReplaceItemInObjectCaseSensitive(choice, "finish_reason",
                                           cJSON_Duplicate(json_at(piece, "finish_reason"), true));
    return true;
}

/* The last event, which brings the usage, with the choices that the events before it add up to. */
static cJSON *join_events(const Events *e) {
    if (e->malformed || !e->done || e->n < 2) return NULL;
    cJSON *choices = cJSON_CreateArray();
    bool whole = true;
    for (int i = 0; i < e->n - 1 && whole; i++) {
        const cJSON *piece = json_at(e->data[i], "choices.0");
        int index = piece ? (int)json_number(piece, "index") : 0;
        while (cJSON_GetArraySize(choices) <= index) cJSON_AddItemToArray(choices, cJSON_CreateNull());
        cJSON *choice = cJSON_GetArrayItem(choices, index);
        if (!piece)
            whole = false;
        else if (cJSON_IsNull(choice))
            cJSON_ReplaceItemInArray(choices, index, cJSON_Duplicate(piece, true));
        else
            whole = join(choice, piece);
    }
    const cJSON *choice;
    cJSON_ArrayForEach(choice, choices) whole = whole && json_text(choice, "finish_reason");
    cJSON *all = whole ? cJSON_Duplicate(e->data[e->n - 1], true) : NULL;
    if (all)
        cJSON_ReplaceItemInObjectCaseSensitive(all, "choices", choices);
    else
        cJSON_Delete(choices);
    return all;
}

/* A plain body counts as one event. */
static cJSON *whole_answer(const LoadAnswer *a) {
    bool stream = !strncmp(a->body, "data: ", 6) || *a->body == ':';
    char *event = xmalloc(a->n_body + 16);
    sprintf(event, "data: %s\n\n", a->body);
    Events e = events_parse(stream ? a->body : event);
    cJSON *all = stream ? join_events(&e) : e.n == 1 ? cJSON_Duplicate(e.data[0], true) : NULL;
    events_free(&e);
    free(event);
    return all;
}

/* That nobody has asked for it is said by a whole body alone. */
static void drop_null(cJSON *choices, const char *key) {
    cJSON *choice;
    cJSON_ArrayForEach(choice, choices) if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(choice, key)))
        cJSON_DeleteItemFromObjectCaseSensitive(choice, key);
}

char *answer_essence(const LoadAnswer *a) {
    cJSON *all = a->status == 200 ? whole_answer(a) : NULL;
    if (!all) return NULL;
    drop_null(cJSON_GetObjectItemCaseSensitive(all, "choices"), "prompt_logprobs");
    cJSON_DeleteItemFromObjectCaseSensitive(all, "id");
    cJSON_DeleteItemFromObjectCaseSensitive(all, "created");
    cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(all, "usage"), "prompt_tokens_details");
    char *text = cJSON_PrintUnformatted(all);
    cJSON_Delete(all);
    return text;
}
