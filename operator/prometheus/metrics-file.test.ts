import { mkdtemp, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { dimensionKey, readMetricsFile } from './metrics-file.ts';
import { loadMetricsFile, MetricsFile } from './metrics-file-watch.ts';

const NONE = new Set<string>();

function problemsOf(text: string, taken: ReadonlySet<string> = NONE): readonly string[] {
  const outcome = readMetricsFile(text, taken);
  return outcome.kind === 'invalid' ? outcome.problems : [];
}

describe('the metrics file', () => {
  test('gives what is left out its default', () => {
    expect(readMetricsFile('- code: a_metric\n  query: sum(up{n="{{namespace}}"})', NONE)).toEqual({
      kind: 'metrics',
      metrics: [
        {
          code: 'a_metric',
          name: 'a_metric',
          unit: 'units',
          description: 'Measured by a query of PROMETHEUS_METRICS_FILE',
          billable: true,
          query: 'sum(up{n="{{namespace}}"})',
          dimensions: [],
        },
      ],
    });
  });

  test.each(['', '# nothing yet\n', '[]'])('may be empty: %j', (text) => {
    expect(readMetricsFile(text, NONE)).toEqual({ kind: 'metrics', metrics: [] });
  });

  test('that is invalid reports every problem, by line and field', () => {
    const text = `- code: Tokens
  query: x
  biilable: true
- code: tenant_gpu_hours
  query: x
- code: a
  billable: maybe
  dimensions: [modelName, model_name, sku, "a-b", tenantCluster]
  sku: 'gpu model'
- code: b
  query: 'x{n={{tenant}}}'
  unit: [hours]
- code: c
  query: 'up'
- code: c
  query: 'up'
- code: pushed
  query: up
- just text
- code: d
  query: 'up{a="{{tennant}}"}'
  name: "${'x'.repeat(129)}"
`;
    const problems = problemsOf(text, new Set(['pushed'])).map((problem) =>
      problem.replace('PROMETHEUS_METRICS_FILE: ', '').replace(/; use \{\{.*/, ''),
    );
    expect(problems).toEqual([
      'line 3: metric: unknown field: "biilable"; use code, name, unit, description, billable, query, dimensions, sku, tenantLabel',
      'line 1: code: not a metric code: "Tokens"; begin with a small letter; use a-z, 0-9 and _, at most 100',
      'line 4: code: a built-in metric: "tenant_gpu_hours"; choose another',
      'line 6: query: missing; give a PromQL query',
      'line 7: billable: not a boolean: "maybe"; write true or false',
      'line 8: dimensions: the same key as "modelName": "model_name"; name it once',
      'line 8: dimensions: "sku" is set by the operator: "sku"; rename the label',
      'line 8: dimensions: not a label name: "a-b"; name a label of the result, such as model_name',
      'line 8: dimensions: "tenant_cluster" is set by the operator: "tenantCluster"; rename the label',
      'line 9: sku: not a label name: "gpu model"; name a label of the result, such as model_name',
      'line 11: query: placeholder outside a string: "{{tenant}}"; write "…" around it',
      'line 12: unit: not a text; write it on one line',
      'line 19: metric: not a map of fields; write "code: …", "query: …" and so on',
      'line 21: query: unknown placeholder: "{{tennant}}"',
      'line 22: name: longer than 128 characters; shorten it',
      'line 15: code: in line 13 already: "c"; name it once',
      'line 17: code: in CUSTOM_METRICS or spec.customMetrics: "pushed"; choose another',
    ]);
  });

  test.each([
    ['a: 1', 'line 1: file: not a list of metrics'],
    ['- &x {code: a, query: up}\n- *x', 'line 1: an anchor'],
    ['- code: a\n  code: b\n  query: up', 'line 2: a duplicate field'],
    ['- code: a\n query: up', 'not valid YAML'],
    [Array.from({ length: 101 }, (_, n) => `- {code: a${n}, query: up}`).join('\n'), '101 metrics'],
    [`- {code: a, query: "${'x'.repeat(300_000)}"}`, 'too large'],
  ])('is read strictly: %.30s', (text, problem) => {
    expect(problemsOf(text)[0]).toContain(problem);
  });

  test('refuses a query for all tenants that names one, with an example', () => {
    const query = 'sum(increase(tokens_total{tenant="{{ tenant }}"}[{{window}}]))';
    expect(
      problemsOf(
        `- {code: a, tenantLabel: tenant, query: '${query}'}\n- {code: b, tenantLabel: a-b, query: up}\n- {code: c, tenantLabel: [], query: up}`,
      ),
    ).toEqual([
      'PROMETHEUS_METRICS_FILE: line 1: query: a name beside tenantLabel: "{{tenant}}"; write one query for all tenants, such as sum by (tenant, model) (increase(tokens_total[{{window}}]))',
      'PROMETHEUS_METRICS_FILE: line 2: tenantLabel: not a label name: "a-b"; name a label of the result, such as model_name',
      'PROMETHEUS_METRICS_FILE: line 3: tenantLabel: not a label name; name a label of the result, such as model_name',
    ]);
  });

  test('names its dimensions as other events do', () => {
    expect(
      ['modelName', 'GPU_I_PROFILE', 'UUID', 'HTTPCode', '_x', '__name__'].map(dimensionKey),
    ).toEqual(['model_name', 'gpu_i_profile', 'uuid', 'http_code', 'l_x', 'l_name__']);
  });

  test('of the documentation is one', async () => {
    const path = resolve(import.meta.dirname, '../../docs/reference/prometheus-metrics.yaml');
    const outcome = await loadMetricsFile(path, NONE);
    expect(outcome).toMatchObject({
      kind: 'metrics',
      metrics: [
        {
          code: 'tenant_gpu_energy_joules',
          billable: true,
          sku: 'modelName',
          dimensions: [{ key: 'model_name', label: 'modelName' }],
        },
        { code: 'tenant_gateway_requests', unit: 'requests', billable: true },
        { code: 'tenant_gpu_memory_used_mib', billable: false },
        // A bill comes from events, not from counters of engines.
        ...['vllm_prompt_tokens', 'vllm_generation_tokens'].map((code) => ({
          code,
          billable: false,
          tenantLabel: 'tenant',
          dimensions: [{ key: 'model_name', label: 'model_name' }],
        })),
        ...['llm_d_input_tokens', 'llm_d_output_tokens'].map((code) => ({
          code,
          billable: false,
          tenantLabel: 'fairness_id',
          dimensions: [{ key: 'target_model_name', label: 'target_model_name' }],
        })),
      ],
    });
  });
});

describe('a changed metrics file', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'metrics-file-'));
    path = join(directory, 'metrics.yaml');
  });
  afterEach(async () => rm(directory, { recursive: true, force: true }));

  const write = (text: string): Promise<void> => writeFile(path, text);
  const codes = (file: MetricsFile): string[] => file.metrics().map(({ code }) => code);

  test('that is missing or too large is an error of configuration at the start', async () => {
    expect(await loadMetricsFile(path, NONE)).toEqual({
      kind: 'invalid',
      problems: [
        `PROMETHEUS_METRICS_FILE: cannot be read: "${path}": ENOENT; mount a readable file there`,
      ],
    });
    await write('#'.repeat(2_000_000));
    expect(await loadMetricsFile(path, NONE)).toMatchObject({
      problems: [expect.stringContaining('2000000 bytes; at most 1048576')],
    });
  });

  test('takes effect without a restart; a broken one leaves the last good one in force', async () => {
    const clock = createManualClock();
    const logger = createMemoryLogger();
    const file = new MetricsFile({ path, initial: [], taken: () => NONE, clock, logger });
    const stop = new AbortController();
    const ended = file.run(stop.signal);
    const poll = async (): Promise<void> => {
      await clock.advance(10_000);
      await clock.sleeper();
    };
    await write('- {code: one, query: up}');
    await poll();
    expect(codes(file)).toEqual(['one']);
    const before = file.metrics();
    await write('- {code: one, query: up} # the same');
    await poll();
    expect(file.metrics()).toBe(before);
    await write('- {code: two, query: up}\n- {code: ONE, query: up}');
    await poll();
    await poll();
    expect(codes(file)).toEqual(['one']);
    expect(logger.lines.filter((line) => line.includes('"ONE"'))).toEqual([
      expect.stringMatching(/^warn \[metrics\] prometheus: .*; the last good file stays in force$/),
    ]);
    await writeFile(join(directory, 'other'), '- {code: three, query: up}');
    await unlink(path);
    await symlink(join(directory, 'other'), path);
    await poll();
    expect(codes(file)).toEqual(['three']);
    stop.abort();
    await ended;
  });
});
