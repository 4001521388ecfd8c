import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import { translatePolicy } from './policy-settings.ts';

type IngestSpec = NonNullable<MeteringPolicySpec['ingest']>;
type RuleSpec = NonNullable<IngestSpec['cloudEvents']>[number];

const ENVIRONMENT = {
  settlingDelayMs: 3_000,
  windowMs: 60_000,
  customMetrics: [{ code: 'images', unit: 'images', dimensions: ['size'] }],
};

const translate = (ingest: IngestSpec) => translatePolicy({ ingest }, ENVIRONMENT);
const messageOf = (...rules: readonly RuleSpec[]): string => {
  const translation = translate({ cloudEvents: [...rules] });
  return translation.kind === 'invalid' ? translation.message : 'accepted';
};

describe('a mapping of AI gateways that cannot count', () => {
  const tokens = { input: '$.in', output: '$.out' };
  test.each<readonly [accident: string, rules: readonly RuleSpec[], message: string]>([
    [
      'a name without $',
      [{ preset: 'kong' }, { type: 't', tokens: { ...tokens, input: 'usage.in' } }],
      `spec.ingest.cloudEvents[1].tokens.input: not a path: "usage.in"; write it as in $.usage.tokens, $['tenant.id'] or $.items[0]`,
    ],
    [
      'a search, which may find several values',
      [{ type: 't', metrics: [{ metric: 'images', value: '$..count' }] }],
      'spec.ingest.cloudEvents[0].metrics[0].value: not a path: "$..count"; write',
    ],
    [
      'a filter',
      [{ preset: 'envoy', subject: '$.a[?(@.b)]' }],
      'spec.ingest.cloudEvents[0].subject: not a path: "$.a[?(@.b)]"; write',
    ],
    [
      'a metric that nobody has declared',
      [{ type: 't', metrics: [{ metric: 'pictures' }] }],
      'spec.ingest.cloudEvents[0].metrics[0].metric: unknown metric: "pictures"; declare it in spec.customMetrics',
    ],
    [
      'a metric that the operator measures itself',
      [{ type: 't', metrics: [{ metric: 'tenant_gpu_hours' }] }],
      'metrics[0].metric: unknown metric: "tenant_gpu_hours"',
    ],
    [
      'a value in another unit',
      [{ type: 't', metrics: [{ metric: 'images', unit: 'pixels' }] }],
      'spec.ingest.cloudEvents[0].metrics[0].unit: not the unit of images: "pixels"; give a value in images',
    ],
    [
      'a dimension that no price can depend on',
      [{ type: 't', metrics: [{ metric: 'images', dimensions: { colour: '$.c' } }] }],
      'spec.ingest.cloudEvents[0].metrics[0].dimensions: no dimension of images: "colour"',
    ],
    [
      'a dimension that tokens do not have',
      [{ type: 't', tokens: { ...tokens, dimensions: { user: '$.u' } } }],
      'spec.ingest.cloudEvents[0].tokens.dimensions: no dimension of tenant_inference_tokens: "user"; use one of model, provider',
    ],
    [
      'cached tokens that may be inside or beside the input',
      [{ type: 't', tokens: { ...tokens, cacheRead: '$.c' } }],
      'spec.ingest.cloudEvents[0].tokens: unclear cached tokens: ',
    ],
    [
      'reasoning that may be inside or beside the output',
      [{ type: 't', tokens: { ...tokens, reasoning: '$.r' } }],
      'spec.ingest.cloudEvents[0].tokens: unclear reasoning: ',
    ],
    [
      'a total beside its parts',
      [{ type: 't', tokens: { ...tokens, count: '$.total', kind: '$.k' } }],
      'spec.ingest.cloudEvents[0].tokens: no tokens, or twice: ',
    ],
    [
      'a count without its kind',
      [{ type: 't', tokens: { count: '$.n' } }],
      'spec.ingest.cloudEvents[0].tokens: one of count and kind: ',
    ],
    ['nothing to count', [{ type: 't' }], 'spec.ingest.cloudEvents[0]: counts nothing: '],
    [
      'two rules for one type, which would count twice',
      [{ preset: 'kong' }, { type: 'kong.llm_request', tokens }],
      'spec.ingest.cloudEvents[1].type: used twice: "kong.llm_request"; give each type one rule',
    ],
  ])('%s is refused with its path', (_, rules, message) => {
    expect(messageOf(...rules)).toContain(message);
  });

  test('never throws, whatever a field holds', () => {
    const rule = fc.record(
      {
        preset: fc.anything(),
        type: fc.anything(),
        subject: fc.anything(),
        ignoreSubjects: fc.anything(),
        tokens: fc.oneof(
          fc.anything(),
          fc.dictionary(fc.constantFrom('input', 'output', 'count', 'dimensions'), fc.anything()),
        ),
        metrics: fc.anything(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(rule), fc.anything(), (cloudEvents, subjects) => {
        // What an API server with another schema lets through.
        const ingest = JSON.parse(JSON.stringify({ cloudEvents, subjects }, plain)) as IngestSpec;
        expect(['settings', 'invalid']).toContain(translate(ingest).kind);
      }),
    );
  });
});

function plain(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

test.each<readonly [IngestSpec, string]>([
  [{ window: '7m' }, 'spec.ingest.window: does not divide an hour'],
  [{ window: '30s' }, 'spec.ingest.window: too short: "30s"; must be between 60s and 1h'],
  [{ lateFor: '25h' }, 'spec.ingest.lateFor: too long: "25h"; must be between 0s and 24h'],
  [{ subjects: [{ subject: '', tenant: 'a' }] }, 'spec.ingest.subjects: blank: ""'],
])('%j is refused', (ingest, message) => {
  expect(translate(ingest)).toMatchObject({ message: expect.stringContaining(message) });
});
