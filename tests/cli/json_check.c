/* json_check [-l] FILE [CHECK]…: is the file JSON (with -l: is every line), and does it hold what the checks say?
 * PATH=VALUE: the value at the dotted path, printed, is VALUE; PATH: there is one; !PATH: there is none; PATH#N: an
 * array or object of N entries. */
#include <jansson.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *at_path(json_t *value, const char *path)
{
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &rest); key && value; key = strtok_r(NULL, ".", &rest))
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
    return value;
}

static bool is_text(json_t *value, const char *text)
{
    char *printed = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    bool same = strcmp(json_is_string(value) ? json_string_value(value) : printed, text) == 0;
    if (!same) printf("is %s, not %s\n", printed, text);
    free(printed);
    return same;
}

static bool holds(json_t *value, const char *check)
{
    char path[512];
    size_t n = strcspn(check, "=#");
    snprintf(path, sizeof path, "%.*s", (int)n, check);
    if (check[0] == '!') return !at_path(value, path + 1);
    json_t *found = at_path(value, path);
    if (!found || !check[n]) return found != NULL;
    if (check[n] == '=') return is_text(found, check + n + 1);
    size_t size = json_is_array(found) ? json_array_size(found) : json_object_size(found);
    return size == (size_t)atol(check + n + 1);
}

static bool check_lines(FILE *f)
{
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    bool fine = true;
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        json_error_t why;
        json_t *value = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, &why);
        number++;
        if (!value || line[n - 1] != '\n')
            printf("line %d: %s\n", number, value ? "is cut short" : why.text), fine = false;
        json_decref(value);
    }
    free(line);
    return fine;
}

int main(int argc, char **argv)
{
    bool lines = argc > 1 && strcmp(argv[1], "-l") == 0;
    const char *path = argc > 1 + lines ? argv[1 + lines] : "";
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("cannot open %s\n", path);
        return 1;
    }
    if (lines) return !check_lines(f);
    json_error_t why;
    json_t *value = json_loadf(f, JSON_REJECT_DUPLICATES, &why);
    fclose(f);
    if (!value) {
        printf("not JSON: line %d: %s\n", why.line, why.text);
        return 1;
    }
    int status = 0;
    for (int i = 2; i < argc; i++)
        if (!holds(value, argv[i])) {
            printf("fails: %s\n", argv[i]);
            status = 1;
        }
    json_decref(value);
    return status;
}
