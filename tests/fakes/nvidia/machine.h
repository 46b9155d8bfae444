/* The GPUs of a fake machine, read anew for every question from a small text file that a test may change:

     driver=580.65.06
     without=nvmlDeviceGetMinorNumber          functions that this driver does not have
     [GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a00]
     name=NVIDIA H100 80GB HBM3
     memory=81559                              MiB; further fields below, 0 where they are left out
     [MIG-a1b20000-0000-5000-8000-000000000000]
     parent=GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a00

   A GPU with slices, or with mig=1, is in MIG mode. In a container the hook has put the names of the GPUs that it was
   asked for into VISIBLE, and no others are there: as the device cgroup has it, not a variable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE "/run/fake-nvidia/state"
#define VISIBLE "/etc/fake-nvidia/visible"
#define MOST 64
#define LENGTH 96

struct gpu {
  char uuid[LENGTH], parent[LENGTH], name[LENGTH];
  unsigned memory, used;           /* MiB */
  unsigned utilization, temperature, ecc, pending, failed, lost, mig;
  unsigned long long reasons;      /* why clocks are lowered, as NVML's bits */
};

struct machine {
  int count;
  struct gpu gpus[MOST];
  char driver[LENGTH], without[1024];
};

/* -1 where there is no machine: the library is installed, the driver is not loaded. */
static int read_machine(struct machine *m) {
  const char *path = getenv("FAKE_NVIDIA");
  FILE *file = fopen(path ? path : STATE, "r");
  char line[1024], *value;
  struct gpu *g = NULL;
  memset(m, 0, sizeof *m);
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "#\r\n")] = 0;
    if (line[0] == '[' && m->count < MOST) {
      g = &m->gpus[m->count++];
      snprintf(g->uuid, LENGTH, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
      continue;
    }
    if (!(value = strchr(line, '='))) continue;
    *value++ = 0;
    if (!g) {
      if (!strcmp(line, "driver")) snprintf(m->driver, LENGTH, "%s", value);
      if (!strcmp(line, "without")) snprintf(m->without, sizeof m->without, " %s ", value);
      continue;
    }
#define TEXT(field) if (!strcmp(line, #field)) snprintf(g->field, LENGTH, "%s", value)
#define NUMBER(field) if (!strcmp(line, #field)) g->field = strtoull(value, NULL, 0)
    TEXT(parent); TEXT(name);
    NUMBER(memory); NUMBER(used); NUMBER(utilization); NUMBER(temperature); NUMBER(ecc); NUMBER(pending);
    NUMBER(failed); NUMBER(lost); NUMBER(mig); NUMBER(reasons);
  }
  fclose(file);
  for (int i = 0; i < m->count; i++)
    for (int k = 0; k < m->count; k++)
      if (!strcmp(m->gpus[i].parent, m->gpus[k].uuid)) {
        m->gpus[k].mig = 1;
        m->gpus[i].lost |= m->gpus[k].lost;
      }
  return 0;
}

static int is_named(const char *uuid) {
  char line[LENGTH];
  int named = 0;
  FILE *file = fopen(VISIBLE, "r");
  if (!file) return 1;
  while (!named && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    named = !strcmp(line, uuid);
  }
  fclose(file);
  return named;
}

/* Whether this process may see a GPU: named itself, or one of its slices is. */
static inline int is_visible(const struct machine *m, const struct gpu *g) {
  if (is_named(g->uuid)) return 1;
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->gpus[i].parent, g->uuid) && is_named(m->gpus[i].uuid)) return 1;
  return 0;
}
