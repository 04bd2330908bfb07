/* Calls of functions: what an answer may be under each style and rule. */
#include "base/memory.h"
#include "server/form/calls.h"
#include "tests/support/forms.h"
#include "tests/support/test.h"

#include <string.h>

#define CITY "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Oslo\",\"Rome\"]}},\"required\":[\"city\"]}"
#define TAGS(name, arguments) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define JSON(name, arguments) "{\"name\": \"" name "\", \"parameters\": " arguments "}"

enum { TOOLS = 3 };

static Form *form_of_rule(const CallStyle *style, CallRule rule) {
    FormError e;
    CallTool tools[TOOLS] = {{.name = "weather", .parameters = cJSON_Parse(CITY)},
                             {.name = "wait"},
                             {.name = "weather_any", .parameters = cJSON_Parse("{}")}};
    Form *f = form_of_calls(style, tools, TOOLS, rule, &e);
    CHECK_MSG(f, "%s: %s", e.path, e.message);
    for (int i = 0; i < TOOLS; i++) cJSON_Delete((cJSON *)tools[i].parameters);
    return f;
}

static void check(const CallStyle *style, CallRule rule, const char *name, const char *const *whole,
                  const char *const *others) {
    Form *f = form_of_rule(style, rule);
    if (f) form_check(f, name, whole, others);
    form_release(f);
}

static const CallRule automatic = {.text = true, .several = true, .only = -1};
static const CallRule required = {.several = true, .only = -1};

TEST(form_calls_in_tags) {
    static const char *const whole[] = {TAGS("weather", "{\"city\": \"Oslo\"}"), TAGS("wait", "{}"),
                                        TAGS("weather_any", "{\"a\": [1, {}]}"),
                                        TAGS("wait", "{}") "\n" TAGS("weather", "{\"city\":\"Rome\"}"), NULL};
    static const char *const never[] = {TAGS("weather", "{}"),
                                        TAGS("wait", "{\"a\":1}"),
                                        TAGS("other", "{}"),
                                        TAGS("weather", "{\"city\":\"Bern\"}"),
                                        TAGS("wait", "{}") TAGS("wait", "{}"),
                                        TAGS("wait", "{}") "\nDone",
                                        TAGS("weather_any", "7"),
                                        TAGS("wait", "{}") "\n",
                                        NULL};
    static const char *const texts[] = {
        "", "Hello", "a <tool_cal", "<<tool_calls>", "\xF0\x9F\x8C\x8A < tool_call>", "{\"name\": \"x\"", NULL};
    check(&call_style_tags, required, "required", whole, never);
    check(&call_style_tags, required, "required", whole, texts);
    check(&call_style_tags, automatic, "auto", whole, never);
    check(&call_style_tags, automatic, "auto", texts, never);
    static const char *const behind_text[] = {"Let me see.\n\n" TAGS("wait", "{}"), "<" TAGS("wait", "{}"),
                                              "<tool" TAGS("wait", "{}"), NULL};
    check(&call_style_tags, automatic, "auto", behind_text, never);
    check(&call_style_tags, required, "required", whole, behind_text);
    CallRule single = {.only = -1};
    static const char *const one[] = {TAGS("wait", "{}"), NULL};
    static const char *const two[] = {TAGS("wait", "{}") "\n" TAGS("wait", "{}"), NULL};
    check(&call_style_tags, single, "one call", one, two);
    CallRule named = {.only = 1};
    static const char *const another[] = {TAGS("weather", "{\"city\": \"Oslo\"}"), TAGS("weather_any", "{}"), NULL};
    check(&call_style_tags, named, "named", one, another);
}

TEST(form_calls_as_json) {
    static const char *const whole[] = {JSON("weather", "{\"city\": \"Oslo\"}"), JSON("wait", "{}"), NULL};
    static const char *const never[] = {
        JSON("weather", "{}"), JSON("wait", "{}") "\n", JSON("wait", "{}") JSON("wait", "{}"),
        JSON("other", "{}"),   "{\"name\": \"",         NULL};
    static const char *const texts[] = {
        "", "Hello", "{\"nam", "{\"a\": 1}", "{\"name\": 7}", "See " JSON("other", "{}"), NULL};
    check(&call_style_json, required, "required", whole, never);
    check(&call_style_json, required, "required", whole, texts);
    check(&call_style_json, automatic, "auto", whole, never);
    check(&call_style_json, automatic, "auto", texts, never);
}

/* A text of any length is watched with as little as a short one. */
TEST(form_calls_behind_long_texts) {
    enum { LONG = 20000 };
    Form *f = form_of_rule(&call_style_tags, automatic);
    FormScratch *s = form_scratch_new();
    FormWalk *w = form_walk_new(f, s);
    for (int i = 0; i < LONG; i++) REQUIRE(form_take(w, "<tool_call", 10, s) && form_may_end(w));
    static const char call[] = ">\n{\"name\": \"wait\", \"arguments\": {}}\n</tool_call>";
    CHECK(form_take(w, call, strlen(call), s) && form_may_end(w) && !form_is_over(w));
    CHECK(!form_test(w, "x", 1, s) && form_test(w, "\n<tool_call>", 12, s));
    form_walk_free(w);
    form_scratch_free(s);
    form_release(f);
}

TEST(form_calls_name_what_they_cannot_keep) {
    static const struct {
        const char *schema, *path, *says;
    } cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"not\":{}}}}", "[1].function.parameters.properties.a.not", ""},
        {"{\"type\":\"string\"}", "[1].function.parameters.type", "must be \"object\", not \"string\""},
        {"{\"properties\":{}}", "[1].function.parameters.type", "must be \"object\", not missing"},
        {"7", "[1].function.parameters", "must be a schema"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/b\"}}}",
         "[1].function.parameters.properties.a.$ref", "leads nowhere"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/b\"}},\"$defs\":{\"b\":{\"not\":{}}}}",
         "[1].function.parameters.$defs/b.not", "is not supported"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        FormError e;
        cJSON *schema = cJSON_Parse(cases[i].schema), *good = cJSON_Parse("{\"type\":\"object\",\"$defs\":{\"b\":{}}}");
        const CallTool tools[] = {{.name = "good", .parameters = good}, {.name = "bad", .parameters = schema}};
        CHECK(!form_of_calls(&call_style_tags, tools, 2, required, &e));
        CHECK_MSG(!strcmp(e.path, cases[i].path) && strstr(e.message, cases[i].says), "%s: %s", e.path, e.message);
        cJSON_Delete(schema);
        cJSON_Delete(good);
    }
}

/* Keyword by keyword, and no more than these: what is left of a schema is kept. */
TEST(form_calls_leave_out_what_they_cannot_keep) {
#define OBJECT(inner) "{\"type\":\"object\"," inner "}"
#define A(schema) OBJECT("\"properties\":{\"a\":" schema "}")
    static const struct {
        const char *schema, *left, *kept, *refused; /* left: the paths behind "parameters", ends with spaces */
    } cases[] = {
        {A("{\"type\":\"string\",\"not\":{},\"if\":{}}"), ".properties.a.not .properties.a.if ", "{\"a\":\"x\"}",
         "{\"a\":1}"},
        {A("{\"type\":\"string\",\"minLength\":1,\"pattern\":\"(?=b)\"}"), ".properties.a.pattern ", "{\"a\":\"x\"}",
         "{\"a\":\"\"}"},
        {A("{\"type\":\"string\",\"maxLength\":2,\"format\":\"iri\"}"), ".properties.a.format ", "{\"a\":\"xy\"}",
         "{\"a\":\"xyz\"}"},
        {A("{\"type\":\"string\",\"maxLength\":2,\"pattern\":\"^b*$\"}"), ".properties.a.maxLength ", "{\"a\":\"bbb\"}",
         "{\"a\":\"c\"}"},
        {A("{\"type\":\"array\",\"items\":[]}"), ".properties.a.items ", "{\"a\":[1]}", "{\"a\":1}"},
        {A("{\"$ref\":\"#/properties\"},\"b\":{}"), ".properties.a .properties.b ", "{\"a\":1,\"b\":2}", "{\"c\":1}"},
        {A("{\"anyOf\":[{\"$ref\":\"#/properties\"},{\"type\":\"null\"}]}"), ".properties.a ", "{\"a\":null}",
         "{\"b\":1}"},
        {A("{\"type\":\"number\",\"multipleOf\":2,\"minimum\":0.5}"), ".properties.a.multipleOf .properties.a.minimum ",
         "{\"a\":-1}", "{\"a\":\"1\"}"},
        {A("{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}"), ".properties.a.oneOf ", "{\"a\":1.5}",
         "{\"a\":\"1\"}"},
        {A("{\"allOf\":[{\"type\":\"integer\"},{\"not\":{}}]}"), ".properties.a.allOf[1].not ", "{\"a\":1}",
         "{\"a\":\"\"}"},
        {A("{\"type\":\"string\",\"anyOf\":[{\"type\":\"date\"}]}"), ".properties.a.anyOf[0].type .properties.a.anyOf ",
         "{\"a\":\"x\"}", "{\"a\":1}"},
        {OBJECT("\"allOf\":[{\"title\":\"t\"},{\"title\":\"u\"}]"), ".allOf ", "{\"a\":1}", "1"},
        {A("{\"$ref\":\"#/$defs/none\"}"), ".properties.a.$ref ", "{\"a\":[1]}", "{\"b\":1}"},
        {A("{\"type\":\"date\"}"), ".properties.a.type ", "{\"a\":1}", "{\"b\":1}"},
        {A("7"), ".properties.a ", "{\"a\":1}", "{\"b\":1}"},
        {OBJECT("\"properties\":{\"a\":{\"type\":\"integer\"}},\"anyOf\":[{\"required\":[\"a\"]}]"), ".anyOf ",
         "{\"a\":1}", "{\"a\":true}"},
        {OBJECT("\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"],\"patternProperties\":{}"),
         ".patternProperties .required ", "{\"a\":1}", "{}"},
        {OBJECT("\"$ref\":\"#/$defs/b\",\"$defs\":{\"b\":{\"type\":\"integer\"}}"), ".$ref ", "{\"a\":1}", "1"},
        {OBJECT("\"properties\":{\"a\":{\"$ref\":\"#/$defs/b\"}},\"$defs\":{\"b\":{\"not\":{},\"type\":\"integer\"}}"),
         ".$defs/b.not ", "{\"a\":1}", "{\"a\":\"\"}"},
    };
#undef A
#undef OBJECT
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        static const char begin[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": ", end[] = "}\n</tool_call>";
        FormError e;
        Buffer left = {0}, kept = {0}, refused = {0}, paths = {0};
        cJSON *schema = cJSON_Parse(cases[i].schema);
        const CallTool tool = {.name = "f", .parameters = schema, .left = &left};
        Form *f = form_of_calls(&call_style_tags, &tool, 1, required, &e);
        buffer_print(&kept, "%s%s%s", begin, cases[i].kept, end);
        buffer_print(&refused, "%s%s%s", begin, cases[i].refused, end);
        REQUIRE(f);
        CHECK_MSG(form_takes(f, kept.data, kept.n) == TAKEN_WHOLE, "%s", cases[i].schema);
        CHECK_MSG(form_takes(f, refused.data, refused.n) == TAKEN_NOT, "%s", cases[i].schema);
        for (const char *path = left.data; path < left.data + left.n; path += strlen(path) + 1)
            buffer_print(&paths, "%s ", path + strlen("[0].function.parameters"));
        CHECK_MSG(paths.n == strlen(cases[i].left) && !memcmp(paths.data, cases[i].left, paths.n), "%s: %.*s",
                  cases[i].schema, (int)paths.n, paths.data);
        form_release(f);
        cJSON_Delete(schema);
        buffer_free(&paths);
        buffer_free(&refused);
        buffer_free(&kept);
        buffer_free(&left);
    }
}
