/* The interpreter of chat templates beside jinja2 (tests/oracle/make_jinja.py): expressions, and published templates
 * with conversations of every kind. */
#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/http_client.h"
#include "tests/support/test.h"
#include "tokenizer/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

static void set_all(JinjaWork *w, const cJSON *object) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) jinja_set(w, item->string, value_of_json(w, item, MARK_CONTENT));
}

static void fill(JinjaWork *w, void *objects) {
    for (const cJSON **object = objects; *object; object++) set_all(w, *object);
}

/* want: the text, or null where jinja2 fails. */
static void check_run(const char *source, const cJSON *objects[3], const cJSON *want) {
    Buffer text = {0}, marks = {0};
    Err err = {""};
    Jinja *j = jinja_parse(source, strlen(source), &err);
    int rc = j ? jinja_run(j, fill, objects, &text, &marks, &err) : -1;
    const char *expected = cJSON_GetStringValue(want);
    bool same =
        rc ? !expected : expected && text.n == strlen(expected) && !memcmp(text.n ? text.data : "", expected, text.n);
    CHECK_MSG(same && (rc == 0 || err.msg[0]), "%.300s:\n%.*s\nnot\n%s", source, rc ? 200 : (int)text.n,
              rc       ? err.msg
              : text.n ? text.data
                       : "",
              expected ? expected : "(an error)");
    buffer_free(&text);
    buffer_free(&marks);
    jinja_free(j);
}

static cJSON *golden(void) {
    char *text = test_read_file("tests/tokenizer/jinja_golden.json", NULL);
    cJSON *read = cJSON_Parse(text);
    free(text);
    BUG_ON(!read);
    return read;
}

TEST(jinja_expressions) {
    cJSON *all = golden();
    const cJSON *one, *expressions = json_at(all, "expressions");
    const cJSON *objects[] = {json_at(all, "variables"), NULL, NULL};
    CHECK(cJSON_GetArraySize(expressions) > 400);
    cJSON_ArrayForEach(one, expressions) check_run(one->child->valuestring, objects, one->child->next);
    cJSON_Delete(all);
}

TEST(jinja_takes_no_zero_byte) {
    static const char source[] = "a\0b";
    Err err = {""};
    CHECK(!jinja_parse(source, sizeof source - 1, &err));
    CHECK_MSG(strstr(err.msg, "a zero byte"), "%s", err.msg);
}

TEST(jinja_published_templates) {
    cJSON *all = golden();
    const cJSON *template, *conversation;
    CHECK(cJSON_GetArraySize(json_at(all, "templates")) >= 9);
    cJSON_ArrayForEach(template, json_at(all, "templates")) {
        const cJSON *want = json_at(template, "texts")->child;
        cJSON_ArrayForEach(conversation, json_at(all, "conversations")) {
            const cJSON *objects[] = {json_at(all, "given"), conversation, NULL};
            check_run(json_text(template, "source"), objects, want);
            want = want->next;
        }
    }
    cJSON_Delete(all);
}

/* ---- what is refused ---- */

static void check_refused(const char *source, const char *why) {
    const cJSON *none[] = {NULL};
    Buffer text = {0}, marks = {0};
    Err err = {""};
    Jinja *j = jinja_parse(source, strlen(source), &err);
    int rc = j ? jinja_run(j, fill, none, &text, &marks, &err) : -1;
    CHECK_MSG(rc && strstr(err.msg, why) && strstr(err.msg, "line"), "%.200s: %s, not %s", source, err.msg, why);
    buffer_free(&text);
    buffer_free(&marks);
    jinja_free(j);
}

/* Parts of Jinja that are not here, and numbers beyond what is. */
TEST(jinja_refuses_by_name) {
    static const struct {
        const char *source, *why;
    } cases[] = {
        {"{% raw %}{{ n }}{% endraw %}", "\"raw\" where a statement should be"},
        {"{% call f() %}{% endcall %}", "\"call\" where a statement should be"},
        {"{% include 'a' %}", "\"include\" where a statement should be"},
        {"{% for i in [] recursive %}{% endfor %}", "\"recursive\" where %} should be"},
        {"{{ 1 | divide }}", "\"divide\" where a filter should be"},
        {"{{ 1 is divisibleby 2 }}", "\"divisibleby\" where a test should be"},
        {"{{ 'a'.rfind('a') }}", "a string has no 'rfind'"},
        {"{{ [1].append(2) }}", "a list has no 'append'"},
        {"{{ shout(1) }}", "'shout' is undefined"},
        {"{{ [1] | select('small') }}", "small is not a test"},
        {"{{ [1] | map('small') }}", "small is not a filter"},
        {"{{ 1 | tojson(sort_keys=true) }}", "tojson has no argument sort_keys"},
        {"{{ 1 | tojson(indent=9223372036854775807) }}", "an indent"},
        {"{{ 1 | tojson(ensure_ascii=true) }}", "ensure_ascii"},
        {"{{ 1 | default(1, 2, 3) }}", "default takes at most 2 arguments, not 3"},
        {"{{ 'a' | replace('a') }}", "replace needs the argument new"},
        {"{{ 'a' | trim('a', chars='a') }}", "trim is given chars twice"},
        {"{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "f has no argument b"},
        {"{{ 'a' | replace('', 'b') }}", "to look for is empty"},
        {"{{ 2 ** 3 }}", "\"*\" where an expression should be"},
        {"{{ 1 < 2 < 3 }}", "one comparison behind another"},
        {"{{ 0x10 }}", "\"x10\" where }} should be"},
        {"{{ '\\101' }}", "\\1 does not begin a character"},
        {"{{ {1: 2} }}", "a key is an integer, not a string"},
        {"{{ 9223372036854775808 }}", "9223372036854775808 is a number beyond 64 bits"},
        {"{{ 9223372036854775807 + 1 }}", "a number beyond 64 bits"},
        {"{{ [9223372036854775807, 1] | sum }}", "a number beyond 64 bits"},
        {"{{ (-9223372036854775807 - 1) | abs }}", "a number beyond 64 bits"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) check_refused(cases[i].source, cases[i].why);
}

/* The words name the line that is meant, however lines end, and whoever is undefined. */
TEST(jinja_errors_say_where_and_who) {
    static const struct {
        const char *source, *why;
    } cases[] = {{"a\n{{ 'b' }}\n\n{{ 'c' | }}", "line 4: "},
                 {"{% if true %}\r\n\r{{ nobody.home }}{% endif %}", "line 3: 'nobody' is undefined"},
                 {"{#\n\n#}{% set a %}\n{{ 1 // 0 }}{% endset %}", "line 4: division by zero"},
                 {"{{ nobody - 1 }}", "line 1: 'nobody' is undefined"},
                 {"{{ 1 - nobody }}", "line 1: 'nobody' is undefined"},
                 {"{{ 1 < nobody }}", "line 1: 'nobody' is undefined"},
                 {"{{ 1 + 'a' }}", "line 1: an integer and a string cannot be added"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) check_refused(cases[i].source, cases[i].why);
}

/* Depth is bounded by words of ours, not by the stack's end. */
TEST(jinja_deep_sources_are_refused) {
    static const struct {
        const char *front, *part, *back;
    } cases[] = {
        {"{{ a", ".b", " }}"},  {"{{ a", "~b", " }}"},           {"{{ a", "|safe", " }}"},
        {"{{ a", "[b]", " }}"}, {"{{ ", "not ", "a }}"},         {"{{ ", "-", "a }}"},
        {"{{ ", "(", ""},       {"{{ ", "b if b else ", "a }}"}, {"{% if b %}", "{% elif b %}", "{% endif %}"},
        {"", "{% if b %}", ""},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Buffer source = {0};
        Err err = {""};
        buffer_text(&source, cases[i].front);
        for (int n = 0; n < FEWER(100000); n++) buffer_text(&source, cases[i].part);
        buffer_text(&source, cases[i].back);
        buffer_append(&source, "", 1);
        Jinja *j = jinja_parse(source.data, source.n - 1, &err);
        CHECK_MSG(j ? jinja_mentions(j, "a") && !jinja_mentions(j, "c") : err.msg[0] != 0, "%s", cases[i].part);
        jinja_free(j);
        check_refused(source.data, "");
        buffer_free(&source);
    }
}

/* ---- marks ---- */

/* Every letter of "secret", and none of another word, is marked as content. */
static void check_marks(const char *source) {
    static const char secret[] = "SecrtSECRT";
    cJSON *given =
        cJSON_Parse("{\"secret\":\"Secret\",\"list\":[\"Secret\",\"Secret\"],\"dict\":{\"Secret\":\"Secret\"}}");
    const cJSON *objects[] = {given, NULL, NULL};
    Buffer text = {0}, marks = {0};
    Err err = {""};
    Jinja *j = jinja_parse(source, strlen(source), &err);
    int rc = j ? jinja_run(j, fill, objects, &text, &marks, &err) : -1;
    CHECK_MSG(rc == 0 && text.n && marks.n == text.n, "%s: %s", source, err.msg);
    for (size_t i = 0; rc == 0 && i < text.n; i++) {
        bool letter = strchr(secret, text.data[i]) != NULL, own = strchr("_<|>", text.data[i]) != NULL;
        CHECK_MSG(!letter || marks.data[i] == MARK_CONTENT, "%s: %.*s at %zu", source, (int)text.n, text.data, i);
        CHECK_MSG(!own || marks.data[i] == MARK_TEMPLATE, "%s: %.*s at %zu", source, (int)text.n, text.data, i);
    }
    buffer_free(&text);
    buffer_free(&marks);
    jinja_free(j);
    cJSON_Delete(given);
}

TEST(jinja_marks_follow_the_bytes) {
    static const char *const sources[] = {
        "<|{{ secret }}|>",
        "{{ '<|' + secret + '|>' }}",
        "{{ '<|' ~ secret ~ '|>' }}",
        "{{ ('<|' + secret + '|>') | upper }}",
        "{{ ('<|' + secret + '|>') | trim | lower | title }}",
        "{{ ('<|' + secret + '|>')[::-1] }}",
        "{{ ('<|' + secret + '|>')[1:-1] }}",
        "{{ ('_' + secret).replace('_', '<|') }}",
        "{{ '_|_' | replace('|', secret) }}",
        "{{ list | join('<|>') }}",
        "{{ '<|>'.join(list) }}",
        "{{ (secret + '<|>' + secret).split('|') | join('_') }}",
        "{% set x %}<|{{ secret }}|>{% endset %}{{ x }}",
        "{% macro f(x) %}<|{{ x }}|>{% endmacro %}{{ f(secret) }}",
        "{% set ns = namespace(x='<|') %}{% set ns.x = ns.x + secret %}{{ ns.x }}",
        "{% for c in secret %}<{{ c }}>{% endfor %}",
        "{% for k, v in dict.items() %}<{{ k }}|{{ v }}>{% endfor %}",
        "{{ '<|' + (dict | tojson) + '|>' }}",
        "{{ '<|' ~ list ~ '|>' }}",
        "{{ ('<|\\n' + secret) | indent(2) }}",
    };
    for (size_t i = 0; i < COUNTOF(sources); i++) check_marks(sources[i]);
}
