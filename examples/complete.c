/* An answer by libcurl and cJSON: cc complete.c -o complete -lcurl -lcjson && ./complete [URL] */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char url[256], *answer = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&answer, &n);
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "%s/v1/completions", argc > 1 ? argv[1] : "http://localhost:8080");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "{\"prompt\":\"It was\",\"max_tokens\":40,\"seed\":7,\"noise_seed\":1}");
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out); /* libcurl's own callback is fwrite */
    CURLcode code = curl_easy_perform(curl);
    fclose(out);
    cJSON *json = cJSON_Parse(answer);
    cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "choices"), 0);
    if (choice)
        puts(cJSON_GetStringValue(cJSON_GetObjectItem(choice, "text")));
    else
        fprintf(stderr, "%s\n%s\n", curl_easy_strerror(code), answer);
    cJSON_Delete(json);
    curl_easy_cleanup(curl);
    free(answer);
    return choice ? EXIT_SUCCESS : EXIT_FAILURE;
}
