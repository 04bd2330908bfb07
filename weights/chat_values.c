#include "weights/chat_values.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/text.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/jinja/text.h"

#include <string.h>

/* U+FDD0, which is no character: no template takes it away as white space. */
static const char cut[] = "\xEF\xB7\x90";

static MarkedText borrowed(JinjaWork *w, const cJSON *string, char mark) {
    return text_of(w, string->valuestring, strlen(string->valuestring), mark);
}

/* ---- content ---- */

static Value text_value(JinjaWork *w, const cJSON *string, bool unfinished) {
    Builder b = {0};
    MarkedText text = borrowed(w, string, MARK_CONTENT);
    if (!unfinished) return value_text(text);
    build(w, &b, text);
    build_bytes(w, &b, cut, strlen(cut), MARK_CUT);
    return value_text(built(&b));
}

static Value part_value(JinjaWork *w, const cJSON *string, bool unfinished) {
    Value part = dict_new(w, VALUE_DICT);
    dict_put(w, part.dict, text_word(w, "type"), value_text(text_word(w, "text")));
    dict_put(w, part.dict, text_word(w, "text"), text_value(w, string, unfinished));
    return part;
}

static Value no_content(JinjaWork *w, const ChatManner *m) {
    return m->takes_none ? value_none() : value_text(text_word(w, ""));
}

static Value content_value(JinjaWork *w, const ChatManner *m, const cJSON *content, bool unfinished) {
    Value parts = value_list();
    Builder lines = {0};
    const cJSON *part;
    if (cJSON_IsString(content) && m->takes_texts) return text_value(w, content, unfinished);
    if (cJSON_IsString(content)) list_push(w, &parts, part_value(w, content, unfinished));
    cJSON_ArrayForEach(part, content) {
        const cJSON *text = json_field(part, "text");
        if (!cJSON_IsString(text)) continue;
        Value v = part_value(w, text, unfinished && !part->next);
        list_push(w, &parts, v);
        if (part != content->child) build_bytes(w, &lines, "\n", 1, MARK_CONTENT);
        build(w, &lines, dict_at(w, v.dict, text_word(w, "text"))->text);
    }
    if (parts.n == 0 && !cJSON_IsArray(content)) return no_content(w, m);
    return m->takes_parts ? parts : value_text(built(&lines));
}

/* ---- messages ---- */

/* Of all texts of a request the template's own: it builds tokens of them, `<|user|>`. */
static Value role_value(JinjaWork *w, const ChatManner *m, const cJSON *role) {
    static const char *const known[] = {"system", "user", "assistant", "tool", "developer", "function", NULL};
    if (!cJSON_IsString(role)) return value_of_json(w, role, MARK_CONTENT);
    bool system = !strcmp(role->valuestring, "developer") && !m->knows_developer;
    if (system) return value_text(text_word(w, "system"));
    return value_text(borrowed(w, role, text_is_in(role->valuestring, known) ? MARK_TEMPLATE : MARK_CONTENT));
}

/* The same call, with its arguments as the object that they spell out. */
static Value call_value(JinjaWork *w, const cJSON *call) {
    enum { DEPTH = 64, VALUES = 1 << 16 };
    Err err;
    Value v = value_of_json(w, call, MARK_CONTENT);
    const cJSON *function = json_field(call, "function"), *spelt = json_field(function, "arguments");
    if (!cJSON_IsString(spelt)) return v;
    cJSON **read = work_json(w);
    *read = json_parse(spelt->valuestring, strlen(spelt->valuestring), DEPTH, VALUES, &err);
    if (!cJSON_IsObject(*read)) return v;
    Value *inside = dict_at(w, v.dict, text_word(w, "function"));
    *dict_at(w, inside->dict, text_word(w, "arguments")) = value_of_json(w, *read, MARK_CONTENT);
    return v;
}

static Value calls_value(JinjaWork *w, const cJSON *calls) {
    Value all = value_list();
    const cJSON *call;
    cJSON_ArrayForEach(call, calls) { list_push(w, &all, call_value(w, call)); }
    return all;
}

static Value message_value(JinjaWork *w, const ChatManner *m, const cJSON *message, bool unfinished) {
    Value v = dict_new(w, VALUE_DICT);
    const cJSON *item;
    cJSON_ArrayForEach(item, message) {
        MarkedText key = text_of(w, item->string, strlen(item->string), MARK_CONTENT);
        bool calls = !strcmp(item->string, "tool_calls");
        if (!strcmp(item->string, "content"))
            dict_put(w, v.dict, key, content_value(w, m, item, unfinished));
        else if (!strcmp(item->string, "role"))
            dict_put(w, v.dict, key, role_value(w, m, item));
        else if (calls && cJSON_IsArray(item) && item->child)
            dict_put(w, v.dict, key, calls_value(w, item));
        else if (!calls && !cJSON_IsNull(item))
            dict_put(w, v.dict, key, value_of_json(w, item, MARK_CONTENT));
    }
    if (!json_field(message, "content")) dict_put(w, v.dict, text_word(w, "content"), no_content(w, m));
    return v;
}

void chat_fill(JinjaWork *w, void *fill) {
    const ChatFill *f = fill;
    const ChatRequest *r = f->request;
    const cJSON *item;
    Value messages = value_list();
    jinja_set(w, "bos_token", value_text(text_word(w, f->manner->bos)));
    jinja_set(w, "eos_token", value_text(text_word(w, f->manner->eos)));
    jinja_set(w, "documents", value_none());
    cJSON_ArrayForEach(item, r->variables) { jinja_set(w, item->string, value_of_json(w, item, MARK_CONTENT)); }
    cJSON_ArrayForEach(item, r->messages) {
        bool unfinished = r->end == CHAT_UNFINISHED && !item->next;
        list_push(w, &messages, message_value(w, f->manner, item, unfinished));
    }
    jinja_set(w, "messages", messages);
    jinja_set(w, "tools", r->tools ? value_of_json(w, r->tools, MARK_CONTENT) : value_none());
    jinja_set(w, "add_generation_prompt", value_bool(r->end == CHAT_OPENED));
}
