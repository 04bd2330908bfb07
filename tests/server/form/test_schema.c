/* JSON schemas: the texts that they take, and the keyword that is named when they cannot be kept. */
#include "base/buffer.h"
#include "tests/support/forms.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define LIST(...)                                                                                                      \
    (const char *const[]) { __VA_ARGS__, NULL }

static void check(const char *schema, const char *const *whole, const char *const *others) {
    FormError e;
    Form *f = form_of_schema_text(schema, &e);
    CHECK_MSG(f != NULL, "%s: %s %s", schema, f ? "" : e.path, f ? "" : e.message);
    if (f) form_check(f, schema, whole, others);
    form_release(f);
}

TEST(form_schema_values) {
    check(
        "{}",
        LIST("1", "\"a\"", "null", "true", "[]", "{}", "[1, {\"a\": [false,-0.5e3]}]", "\"\\u00e9\\ud83c\\udf88\\n\""),
        LIST("", "01", "1.", "+1", "\"a", "\"\n\"", "[1,]", "{\"a\"}", " 1", "1 ", "tru", "\"\\u0000\"", "\"\\ud800\"",
             "\"\\x\"", "[1 ,2]", "1e999"));
    check("{\"type\":\"integer\"}", LIST("0", "-12", "1234567890123456"), LIST("1.0", "-", "--1", "12345678901234567"));
    check("{\"type\":[\"null\",\"boolean\"]}", LIST("null", "true", "false"), LIST("0"));
    check("{\"enum\":[\"a\",\"ab\",1.5,null,[1,{\"b\":\"\\n\"}]]}",
          LIST("\"a\"", "\"ab\"", "1.5", "null", "[1,{\"b\":\"\\n\"}]"), LIST("\"abc\"", "1", "[1]"));
    check("{\"type\":\"string\",\"enum\":[\"a\",1]}", LIST("\"a\""), LIST("1"));
    check("{\"const\":\"\xC3\xA9\"}", LIST("\"\xC3\xA9\""), LIST("\"e\""));
    check("{\"enum\":[8007199254740991,0.30000000000000004,-12345678901234567890,1e2,[9007199254740993]]}",
          LIST("8007199254740991", "0.30000000000000004", "-12345678901234567890", "100", "[9007199254740993]"),
          LIST("8.00719925474099e+15", "0.3", "[9007199254740992]"));
    check("true", LIST("1"), LIST(""));
    check("{\"anyOf\":[{\"type\":\"integer\"},{\"const\":\"x\"}]}", LIST("7", "\"x\""), LIST("\"y\""));
    check("{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", LIST("7", "\"y\""), LIST("null"));
    check("{\"allOf\":[{\"type\":\"integer\"}],\"title\":\"t\"}", LIST("7"), LIST("null"));
    check("{\"allOf\":[{\"title\":\"t\"},{\"type\":\"integer\"},true]}", LIST("7"), LIST("null"));
    check("{\"allOf\":[{},{\"description\":\"d\"}]}", LIST("7", "null"), LIST(""));
    check(
        "{\"type\":\"integer\",\"allOf\":[{\"title\":\"t\"},{\"$ref\":\"#/$defs/x\"}],\"$defs\":{\"x\":{\"const\":7}}}",
        LIST("7"), LIST("8"));
    check("{\"type\":\"string\",\"anyOf\":[{\"enum\":[\"x\"]},{\"$ref\":\"#/$defs/"
          "y\"}],\"$defs\":{\"y\":{\"const\":\"y\"}}}",
          LIST("\"x\"", "\"y\""), LIST("\"z\"", "1"));
    check("{\"type\":[\"object\",\"null\"],\"oneOf\":[{\"type\":\"null\"},{\"properties\":{\"a\":{}},\"type\":"
          "\"object\"}]}",
          LIST("null", "{\"a\":1}", "{}"), LIST("{\"b\":1}", "1"));
}

/* The second text lies further into all texts than there are parts. */
TEST(form_schema_long_texts) {
    enum { LONG = 200000 };
    static char schema[LONG + 64], text[LONG + 3];
    memset(text, 'x', sizeof text);
    text[0] = text[LONG + 1] = '"';
    text[LONG + 2] = 0;
    snprintf(schema, sizeof schema, "{\"enum\":[%s,\"y\"]}", text);
    FormError e;
    Form *f = form_of_schema_text(schema, &e);
    REQUIRE(f != NULL);
    CHECK(form_takes(f, text, LONG + 2) == TAKEN_WHOLE);
    CHECK(form_takes(f, "\"y\"", 3) == TAKEN_WHOLE);
    CHECK(form_takes(f, "\"x\"", 3) == TAKEN_NOT);
    form_release(f);
}

TEST(form_schema_numbers) {
    check("{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
          LIST("-12", "-9", "0", "9", "10", "99", "100", "105"),
          LIST("-13", "106", "110", "1000", "00", "-0", "-20", "-100"));
    check("{\"type\":\"integer\",\"exclusiveMinimum\":0}", LIST("1", "10", "9999999999999999"), LIST("0", "-1"));
    check("{\"type\":\"integer\",\"maximum\":-7.5}", LIST("-8", "-100"), LIST("-7", "0"));
    check("{\"type\":\"number\",\"minimum\":0}", LIST("0", "0.5", "12.25", "0.0"), LIST("-1", "-0.5", ".5", "1e2"));
    check("{\"type\":\"number\",\"minimum\":-1,\"exclusiveMaximum\":2}",
          LIST("-1", "-1.00", "-0.99", "0.1", "1.999999999", "1"), LIST("-1.01", "2", "2.0", "1.9999999999999999"));
    check("{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1}", LIST("0.001", "1", "1.0", "0.5"),
          LIST("0", "0.000", "1.1", "-0.1"));
    check("{\"type\":\"integer\",\"minimum\":5,\"maximum\":5}", LIST("5"), LIST("4", "55"));
    FormError e;
    for (int low = -23; low < 120; low += 11) {
        for (int high = low; high < 131; high += 7) {
            char schema[96], text[16];
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", low, high);
            Form *f = form_of_schema_text(schema, &e);
            REQUIRE(f != NULL);
            for (int x = -140; x<1400; x += x> 140 ? 13 : 1) {
                snprintf(text, sizeof text, "%d", x);
                CHECK_MSG((form_takes(f, text, strlen(text)) == TAKEN_WHOLE) == (x >= low && x <= high), "%s: %s",
                          schema, text);
            }
            form_release(f);
        }
    }
}

TEST(form_schema_strings) {
    check("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
          LIST("\"ab\"", "\"\xC3\xA9\xE2\x82\xAC\\n\"", "\"\\ud83c\\udf88a\""), LIST("\"a\"", "\"abcd\"", "\"\""));
    check("{\"type\":\"string\",\"pattern\":\"^a[\\\"/\\\\n]+$\"}",
          LIST("\"a\\\"\"", "\"a/\"", "\"a\\/\"", "\"a\\n\\u000a\""), LIST("\"a\"\"", "\"a\n\"", "\"a\"", "\"b\""));
    check("{\"pattern\":\"b\"}",
          LIST("\"b\"", "\"abc\"",
               "\"\\n\xC3\xA9"
               "b\\\\\""),
          LIST("\"a\"", "\"\""));
    check("{\"pattern\":\"^a|b$\"}", LIST("\"ax\"", "\"xb\""), LIST("\"xa\"", "\"bx\""));
    check("{\"format\":\"date\"}", LIST("\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""),
          LIST("\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-00-10\""));
    check("{\"format\":\"date-time\"}", LIST("\"2024-02-29T23:59:00Z\"", "\"2024-01-01T00:00:00.5+01:00\""),
          LIST("\"2024-02-29\"", "\"2024-02-29T24:00:00Z\""));
    check("{\"format\":\"ipv4\"}", LIST("\"1.2.3.255\""), LIST("\"1.2.3\"", "\"1.2.3.256\"", "\"01.2.3.4\""));
    check("{\"format\":\"uri\"}", LIST("\"https://a.example/b/c.html?d=1#e\"", "\"http://a.b:8080\""),
          LIST("\"a.example\"", "\"https://a b.c\"", "\"https://\""));
    check("{\"format\":\"uuid\"}", LIST("\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\""), LIST("\"2eb8aa08\""));
}

TEST(form_schema_arrays) {
    check("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
          LIST("[1]", "[1,2]", "[ 1,\n  2, 3 ]"), LIST("[]", "[1,2,3,4]", "[\"a\"]", "[1,,2]"));
    check("{\"items\":[{\"type\":\"integer\"}]}", LIST("[]", "[1]"), LIST("[\"a\"]", "[1,2]"));
    check("{\"type\":\"array\",\"maxItems\":0}", LIST("[]"), LIST("[1]"));
    check("{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", LIST("[]", "[1]", "[1,\"a\"]"),
          LIST("[\"a\"]", "[1,\"a\",2]", "[,\"a\"]"));
    check("{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":2,\"maxItems\":4}",
          LIST("[1,2]", "[1,2,3]", "[1,2,3,3]"), LIST("[1]", "[1,2,3,3,3]", "[1,3]"));
    check("{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"maxItems\":1}", LIST("[]", "[1]"), LIST("[1,2]"));
}

TEST(form_schema_objects) {
    check("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{},\"c\":{\"const\":1}},"
          "\"required\":[\"b\"]}",
          LIST("{\"a\":1,\"b\":2,\"c\":1}", "{\"b\":null}", "{\"b\":[],\"c\":1}", "{\n  \"a\": 1,\n  \"b\": 2\n}"),
          LIST("{}", "{\"a\":1}", "{\"b\":1,\"a\":1}", "{\"b\":1,}", "{\"b\":1,\"d\":1}", "{,\"b\":1}"));
    check("{\"properties\":{\"a\":{}}}", LIST("{}", "{\"a\":1}", "{ }"), LIST("{\"b\":1}", "{\"a\":1,\"a\":1}"));
    check("{\"type\":\"object\"}", LIST("{}", "{\"x\":{\"y\":1}}"), LIST("[]"));
    check("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}", LIST("{}", "{\"x\":1,\"y\":2}"),
          LIST("{\"x\":\"1\"}"));
    check("{\"properties\":{\"a\":{\"const\":1},\"abc\":{\"const\":2},\"\xC3\xA9\":{\"const\":3}},\"required\":[\"a\"],"
          "\"additionalProperties\":{\"const\":0}}",
          LIST("{\"a\":1}", "{\"a\":1,\"abc\":2,\"ab\":0,\"x\":0}", "{\"a\":1,\"\":0}", "{\"a\":1,\"abcd\":0}",
               "{\"a\":1,\"\xC3\xA9x\":0}", "{\"a\":1,\"\xC3\xA8\":0}"),
          LIST("{\"a\":0}", "{\"a\":1,\"abc\":0}", "{\"a\":1,\"a\":0}", "{\"a\":1,\"\xC3\xA9\":0}",
               "{\"a\":1,\"\\u0061bc\":0}", "{\"x\":0}"));
    check("{\"type\":\"object\",\"properties\":{\"q\\\"\":{\"const\":1}},\"additionalProperties\":false}",
          LIST("{\"q\\\"\":1}"), LIST("{\"q\"\":1}"));
}

TEST(form_schema_references) {
    check("{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":["
          "{\"$ref\":\"#/$defs/node\"},"
          "{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}},\"$ref\":\"#/$defs/node\"}",
          LIST("{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"),
          LIST("{\"v\":1,\"next\":{}}"));
    check("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", LIST("[]", "[[],[[]]]"), LIST("[1]"));
    check("{\"prefixItems\":[{\"const\":1},{\"$ref\":\"#/prefixItems/0\"}]}", LIST("[1]", "[1,1]"), LIST("[1,2]"));
    check("{\"$defs\":{\"a~b c\":{\"const\":1}},\"$ref\":\"#/$defs/a~0b%20c\"}", LIST("1"), LIST("2"));
    check("{\"definitions\":{\"a/b\":{\"const\":1}},\"properties\":{\"x\":{\"$ref\":\"#/definitions/a~1b\"}}}",
          LIST("{\"x\":1}"), LIST("{\"x\":2}"));
    check("{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/"
          "b\"}],\"$defs\":{\"a\":{\"properties\":{\"t\":{\"const\":\"a\"}},\"required\":[\"t\"]},"
          "\"b\":{\"properties\":{\"t\":{\"enum\":[\"b\",\"c\"]}},\"required\":[\"t\"]}}}",
          LIST("{\"t\":\"a\"}", "{\"t\":\"c\"}"), LIST("{\"t\":\"d\"}", "{}"));
}

/* As zod and pydantic write them. */
TEST(form_schema_annotations) {
    check("{\"type\":\"string\",\"format\":\"starts_with\",\"pattern\":\"^ab.*\"}", LIST("\"abc\""), LIST("\"bc\""));
    check("{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2[0-9]{3}-01-01$\"}", LIST("\"2024-01-01\""),
          LIST("\"2024-02-01\""));
    check("{\"type\":\"string\",\"format\":\"email\",\"pattern\":\"^(?!\\\\.)[a-z.]+@[a-z.]+$\"}",
          LIST("\"a@b.example\""), LIST("\"ab\""));
    static const char *const idle[] = {"\"format\":\"password\"",  "\"format\":\"binary\"",
                                       "\"format\":\"file-path\"", "\"contentEncoding\":\"base64\"",
                                       "\"nullable\":false",       "\"markdownDescription\":\"what it is\""};
    for (size_t i = 0; i < COUNTOF(idle); i++) {
        check(test_text("{\"type\":\"string\",\"maxLength\":3,%s}", idle[i]), LIST("\"abc\""), LIST("\"abcd\"", "1"));
    }
    check(
        "{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{\"type\":\"integer\"}}",
        LIST("{\"a\":1}"), LIST("{\"a\":\"b\"}"));
}

/* Of oneOf, what no value can be two of: by types, listed values, or a property that both require. */
TEST(form_schema_one_of) {
    check("{\"oneOf\":[{\"const\":true},{\"const\":[1]},{\"const\":{\"a\":1}},{\"const\":null},{\"const\":\"x\"},"
          "{\"const\":1.5},{\"const\":2}]}",
          LIST("true", "[1]", "{\"a\":1}", "null", "\"x\"", "1.5", "2"), LIST("false", "[2]", "{}", "1"));
    check("{\"oneOf\":[{\"enum\":[1,\"a\"]},{\"enum\":[2,\"b\"]},{\"const\":3}]}", LIST("1", "\"b\"", "3"), LIST("4"));
    check("{\"oneOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":[\"integer\",\"boolean\"]}]}",
          LIST("\"a\"", "null", "1", "true"), LIST("[]", "1.5"));
    check("{\"oneOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
          "{\"oneOf\":[{\"type\":\"array\"},{\"type\":\"boolean\"}]},{\"allOf\":[{\"type\":\"integer\"}]}]}",
          LIST("\"a\"", "null", "[]", "true", "7"), LIST("{}", "1.5"));
    check("{\"oneOf\":[{\"properties\":{\"a\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]}},"
          "\"required\":[\"a\"]},"
          "{\"properties\":{\"a\":{\"properties\":{\"k\":{\"const\":2}},\"required\":[\"k\"]}},\"required\":[\"a\"]}]}",
          LIST("{\"a\":{\"k\":1}}", "{\"a\":{\"k\":2}}"), LIST("{\"a\":{\"k\":3}}", "{}"));
}

TEST(form_schema_names_what_it_cannot_keep) {
    static const struct {
        const char *schema, *path, *why;
    } cases[] = {
        {"{\"properties\":{\"a\":{\"not\":{}}}}", "properties.a.not", "is not supported"},
        {"{\"items\":{\"uniqueItems\":true}}", "items.uniqueItems", "is not supported"},
        {"{\"anyOf\":[{},{\"if\":{}}]}", "anyOf[1].if", "is not supported"},
        {"{\"anyOf\":[{}],\"minLength\":1}", "anyOf", "beside minLength"},
        {"{\"anyOf\":[{}],\"oneOf\":[{}]}", "oneOf", "beside anyOf"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "oneOf", "both [0] and [1]"},
        {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}}},{\"properties\":{\"t\":{\"const\":2}}}]}", "oneOf",
         "both"},
        {"{\"oneOf\":[{\"enum\":[1,2]},{\"enum\":[2,3]}]}", "oneOf", "both [0] and [1]"},
        {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\"},{\"const\":\"x\"}]}", "oneOf", "both [1] and [2]"},
        {"{\"oneOf\":[{},{\"type\":\"null\"}]}", "oneOf", "both [0] and [1]"},
        {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},{\"properties\":{\"t\":{\"const\":2}}"
         "}]}",
         "oneOf", "both"},
        {"{\"oneOf\":3}", "oneOf", "array of schemas"},
        {"{\"anyOf\":[]}", "anyOf", "array of schemas"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"minLength\":1}]}", "allOf", "more than one"},
        {"{\"type\":\"string\",\"allOf\":[{\"title\":\"t\"},{\"type\":\"integer\"}]}", "allOf", "narrower type"},
        {"{\"type\":\"object\",\"allOf\":[{\"title\":\"t\"},{\"title\":\"u\"}]}", "allOf", "narrower type"},
        {"{\"$ref\":\"http://x/y\"}", "$ref", "in the same schema"},
        {"{\"$ref\":\"#/$defs/x\"}", "$ref", "leads nowhere"},
        {"{\"$ref\":\"#x\"}", "$ref", "in the same schema"},
        {"{\"$ref\":3}", "$ref", "in the same schema"},
        {"{\"prefixItems\":[{}],\"items\":{\"$ref\":\"#/prefixItems/1\"}}", "items.$ref", "leads nowhere"},
        {"{\"$defs\":{\"x\":{\"not\":{}}},\"items\":{\"$ref\":\"#/$defs/x\"}}", "$defs/x.not", "is not supported"},
        {"{\"$ref\":\"#\"}", "", "no text is of this form"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "", "no text is of this form"},
        {"{\"type\":\"text\"}", "type", "must name types"},
        {"{\"type\":[]}", "type", "must name a type"},
        {"{\"minLength\":-1}", "minLength", "between 0 and"},
        {"{\"minLength\":3,\"maxLength\":2}", "minLength", "maxLength only 2"},
        {"{\"pattern\":\"a\",\"minLength\":2}", "minLength", "beside another"},
        {"{\"pattern\":\"(?=a)\"}", "pattern", "lookahead"},
        {"{\"format\":\"regex\"}", "format", "is not supported"},
        {"{\"nullable\":true}", "nullable", "is not supported"},
        {"{\"propertyNames\":{\"pattern\":\"a\"}}", "propertyNames", "is not supported"},
        {"{\"format\":\"starts_with\",\"pattern\":\"(?=a)b\"}", "pattern", "is"},
        {"{\"pattern\":\"a\",\"maxLength\":1}", "maxLength", "beside another bound"},
        {"{\"pattern\":3}", "pattern", "must be a string"},
        {"{\"format\":3}", "format", "is not supported"},
        {"{\"type\":\"integer\",\"maximum\":\"9\"}", "maximum", "must be a number"},
        {"{\"type\":\"integer\",\"minimum\":1e300}", "minimum", "must be between"},
        {"{\"type\":\"number\",\"minimum\":0.5}", "minimum", "must be an integer"},
        {"{\"minItems\":2,\"maxItems\":1}", "minItems", "maxItems only 1"},
        {"{\"minItems\":\"2\"}", "minItems", "between 0 and"},
        {"{\"prefixItems\":[]}", "prefixItems", "array of 1 to"},
        {"{\"prefixItems\":{}}", "prefixItems", "array of 1 to"},
        {"{\"required\":3}", "required", "array of names"},
        {"{\"required\":[3]}", "required", "array of names"},
        {"{\"type\":\"number\",\"multipleOf\":2}", "multipleOf", "is not supported"},
        {"{\"required\":[\"a\"]}", "required", "properties lacks"},
        {"{\"enum\":[]}", "enum", "array of values"},
        {"{\"type\":\"string\",\"enum\":[1]}", "enum", "no value of the type"},
        {"{\"properties\":[]}", "properties", "object of schemas"},
        {"{\"items\":3}", "items", "must be a schema"},
        {"false", "", "no text is of this form"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        FormError e;
        Form *f = form_of_schema_text(cases[i].schema, &e);
        CHECK_MSG(!f && !strcmp(e.path, cases[i].path) && strstr(e.message, cases[i].why), "%s: %s: %s",
                  cases[i].schema, f ? "taken" : e.path, f ? "" : e.message);
        form_release(f);
    }
}

/* References lead from schema to schema, each as deep as JSON may be: what they come to has an end of its own. */
TEST(form_schema_references_are_bounded) {
    enum { SCHEMAS = 300, DEEP = 54 };
    Buffer b = {0};
    buffer_text(&b, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < SCHEMAS; i++) {
        buffer_print(&b, "%s\"d%d\":", i ? "," : "", i);
        for (int k = 0; k < DEEP; k++) buffer_text(&b, "{\"items\":");
        buffer_print(&b, i + 1 < SCHEMAS ? "{\"$ref\":\"#/$defs/d%d\"}" : "{\"type\":\"null\"}", i + 1);
        for (int k = 0; k < DEEP; k++) buffer_text(&b, "}");
    }
    buffer_append(&b, "}}", 3);
    FormError e;
    Err err;
    cJSON *schema = json_parse(b.data, strlen(b.data), 64, 100000, &err);
    REQUIRE(schema != NULL);
    CHECK(!form_of_schema(schema, &e) && strstr(e.message, "is nested too deep"));
    cJSON_Delete(schema);
    b.n = 0;
    buffer_text(&b, "{\"properties\":{");
    for (int i = 0; i < 2049; i++) buffer_print(&b, "%s\"p%d\":{}", i ? "," : "", i);
    buffer_append(&b, "}}", 3);
    schema = json_parse(b.data, strlen(b.data), 64, 100000, &err);
    CHECK(!form_of_schema(schema, &e) && !strcmp(e.path, "properties") && strstr(e.message, "2049 names"));
    cJSON_Delete(schema);
    b.n = 0;
    buffer_text(&b, "{\"required\":[\"\"");
    for (int i = 0; i < 2048; i++) buffer_text(&b, ",\"\"");
    buffer_append(&b, "]}", 3);
    schema = json_parse(b.data, strlen(b.data), 64, 100000, &err);
    CHECK(!form_of_schema(schema, &e) && !strcmp(e.path, "required") && strstr(e.message, "2049 names"));
    cJSON_Delete(schema);
    buffer_free(&b);
}
