import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { cloudEventRules, presetRules } from '../settings/parsers/cloud-event-rules.ts';
import { readReported } from './read-reported.ts';
import type { IntakeRules } from './rules.ts';
import type { ReportedRequest } from './reported-request.ts';

const NOW = Date.parse('2026-11-28T14:00:00Z');
const ONE = { 'content-type': 'application/cloudevents+json' };
const JSON_TYPE = { 'content-type': 'application/json' };
const RULES: IntakeRules = { cloudEvents: presetRules(), subjects: [] };

function report(body: unknown, headers = ONE, rules = RULES) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const read = readReported(Buffer.from(text), headers, rules, NOW);
  if (read.kind !== 'reported') throw new Error(`not read: ${JSON.stringify(read)}`);
  return read;
}

/** Rules that the field `spec.ingest.cloudEvents` gives. */
function rulesOf(...cloudEvents: readonly object[]): IntakeRules {
  const parsed = cloudEventRules().field?.(cloudEvents);
  if (parsed?.kind !== 'value') throw new Error(JSON.stringify(parsed));
  return { cloudEvents: parsed.value, subjects: [] };
}

/** Tokens by kind of the only request. */
function tokensOf({ requests }: { readonly requests: readonly ReportedRequest[] }) {
  const tokens = (requests[0]?.quantities ?? []).filter(
    ({ metric }) => metric === 'tenant_inference_tokens',
  );
  return Object.fromEntries(
    tokens.map(({ dimensions, quantity }) => [dimensions['token_type'], quantity]),
  );
}

const LITELLM = {
  specversion: '1.0',
  type: 'litellm_tokens',
  id: 'chatcmpl-1',
  time: '2026-11-28T13:22:27.123456+00:00',
  subject: 'acme',
  source: 'litellm-proxy',
  data: {
    model: 'gpt-4o',
    cost: 0.000123,
    prompt_tokens: 12,
    completion_tokens: 7,
    total_tokens: 19,
  },
};
const PRAXIS = {
  specversion: '1.0',
  id: 'p1',
  source: 'ai-gateway',
  type: 'inference.tokens.used',
  subject: 'acme',
  time: '2026-11-28T13:22:27.123456789+00:00',
  datacontenttype: 'application/json',
  data: {
    user: 'acme',
    group: 'g',
    subscription: 's',
    provider: 'openai',
    model: 'gpt-5',
    duration_ms: 812,
    user_agent: 'curl/8',
    prompt_tokens: 120,
    completion_tokens: 40,
    total_tokens: 160,
    cached_input_tokens: 100,
    cache_creation_tokens: 0,
    reasoning_tokens: 8,
  },
};
const ENVOY = {
  schema_version: 'v1',
  event_id: 'req-1|route|b1',
  emitted_at: 1_764_336_147_123,
  request_id: 'req-1',
  status: 'succeeded',
  status_code: 200,
  provider: 'openai',
  backend: 'b1',
  model_requested: 'm',
  model_response: 'm-2026',
  input_tokens: 90,
  output_tokens: 40,
  cached_input_tokens: 30,
  cache_write_input_tokens: 0,
  reasoning_tokens: 8,
  attributes: { 'tenant.id': 'acme' },
};
const kong = (id: string, type: string, tokens: unknown, subject = 'consumer:u-1') => ({
  specversion: '1.0',
  id,
  source: 'kong',
  type: 'kong.llm_request',
  subject,
  time: '2026-11-28T13:22:27Z',
  data: { tokens, type, model: 'gpt-4o', provider: 'openai', route: 'chat' },
});

describe('a gateway that is connected without a change on its side', () => {
  test('LiteLLM', () => {
    const key = createHash('sha256').update('litellm-proxy\0chatcmpl-1').digest();
    const dimensions = { model: 'gpt-4o' };
    const metric = 'tenant_inference_tokens';
    expect(report(LITELLM)).toStrictEqual({
      kind: 'reported',
      refused: [],
      ignored: 0,
      requests: [
        {
          key: key.subarray(0, 16).toString('base64url'),
          source: 'litellm-proxy',
          id: 'chatcmpl-1',
          subject: 'acme',
          tenant: 'acme',
          at: Date.parse('2026-11-28T13:22:27.123Z'),
          quantities: [
            { metric, dimensions: { ...dimensions, token_type: 'input' }, quantity: '12' },
            { metric, dimensions: { ...dimensions, token_type: 'output' }, quantity: '7' },
            { metric: 'tenant_inference_requests', dimensions, quantity: '1' },
          ],
        },
      ],
    });
  });

  test('LiteLLM: a health check is not a tenant’s', () => {
    const health = { ...LITELLM, subject: 'litellm:/health/services' };
    expect(report(health)).toMatchObject({ requests: [], refused: [], ignored: 1 });
  });

  test('LiteLLM: an image, whose tokens nobody counts, is a visible gap', () => {
    const image = { ...LITELLM, data: { model: 'dall-e-3', cost: 0.04 } };
    expect(report(image)).toMatchObject({
      requests: [],
      refused: [
        {
          id: 'chatcmpl-1',
          source: 'litellm-proxy',
          reason: 'missing: $.prompt_tokens',
        },
      ],
    });
  });

  test('praxis: what is cached and thought is a part', () => {
    const read = report(PRAXIS, JSON_TYPE);
    expect(tokensOf(read)).toStrictEqual({
      input: '20',
      cache_read: '100',
      output: '32',
      reasoning: '8',
    });
    expect(read.requests[0]?.quantities.at(-1)).toStrictEqual({
      metric: 'tenant_inference_requests',
      dimensions: { model: 'gpt-5', provider: 'openai' },
      quantity: '1',
    });
  });

  test('praxis: an error of the model is nobody’s usage', () => {
    const data = { provider: 'openai', model: 'gpt-5', status_code: 500 };
    const failed = { ...PRAXIS, type: 'inference.request.error', data };
    expect(report(failed, JSON_TYPE)).toMatchObject({ requests: [], refused: [], ignored: 1 });
  });

  test('Envoy: what is cached stands beside the input', () => {
    const read = report(ENVOY, JSON_TYPE);
    expect(tokensOf(read)).toStrictEqual({
      input: '90',
      cache_read: '30',
      output: '32',
      reasoning: '8',
    });
    expect(read.requests[0]).toMatchObject({
      at: 1_764_336_147_123,
      tenant: 'acme',
      quantities: [
        { dimensions: { model: 'm-2026', provider: 'openai', token_type: 'input' } },
        {},
        {},
        {},
        {},
      ],
    });
  });

  test('Envoy: a failed request has no tokens, and perhaps no tenant', () => {
    const zeros = {
      input_tokens: 0,
      output_tokens: 0,
      cached_input_tokens: 0,
      reasoning_tokens: 0,
    };
    const failed = { ...ENVOY, ...zeros, status: 'failed', attributes: {} };
    expect(report(failed, JSON_TYPE)).toMatchObject({ requests: [], refused: [], ignored: 1 });
    const anonymous = { ...ENVOY, attributes: {} };
    expect(report(anonymous, JSON_TYPE).refused).toMatchObject([
      { reason: 'no caller: subject: "none"' },
    ]);
  });

  test('Kong: an event for each kind, and numbers that may be text', () => {
    const batch = [kong('k1', 'request', 12), kong('k2', 'response', '7'), kong('k3', 'total', 19)];
    const headers = { 'content-type': 'application/cloudevents-batch+json' };
    const read = report(batch, headers);
    expect(read.requests.map(({ quantities }) => quantities)).toStrictEqual([
      [
        {
          metric: 'tenant_inference_tokens',
          dimensions: { model: 'gpt-4o', provider: 'openai', token_type: 'input' },
          quantity: '12',
        },
      ],
      [
        {
          metric: 'tenant_inference_tokens',
          dimensions: { model: 'gpt-4o', provider: 'openai', token_type: 'output' },
          quantity: '7',
        },
      ],
    ]);
    expect(read.requests.map(({ subject, tenant }) => [subject, tenant])).toStrictEqual([
      ['consumer:u-1', 'u-1'],
      ['consumer:u-1', 'u-1'],
    ]);
    expect(read.refused).toMatchObject([
      { id: 'k3', reason: 'not a kind of tokens: $.type: "total"' },
    ]);
    expect(report(kong('k4', 'request', 1, 'app:a')).requests).toMatchObject([{ tenant: 'app:a' }]);
  });

  test('OpenMeter: the event of its quick start', () => {
    const data = { tokens: '123456', model: 'gpt4-turbo', type: 'output' };
    const event = { ...LITELLM, type: 'prompt', source: 'chat-app', data };
    expect(tokensOf(report(event))).toStrictEqual({ output: '123456' });
  });
});

describe('what a mapping cannot count', () => {
  test('is never clipped to zero', () => {
    const cached = { ...PRAXIS, data: { ...PRAXIS.data, cached_input_tokens: 121 } };
    expect(report(cached, JSON_TYPE)).toMatchObject({
      requests: [],
      refused: [{ reason: 'less than its cached tokens: $.prompt_tokens: "120"' }],
    });
    const thought = { ...PRAXIS, data: { ...PRAXIS.data, reasoning_tokens: 41 } };
    expect(report(thought, JSON_TYPE).refused).toMatchObject([
      { reason: 'less than its reasoning: $.completion_tokens: "40"' },
    ]);
  });

  test.each([
    [-1, 'not a number of at least 0: $.prompt_tokens: "-1"'],
    ['many', 'not a number of at least 0: $.prompt_tokens: "many"'],
    [true, 'not a number of at least 0: $.prompt_tokens: "true"'],
    [[1], 'not a number of at least 0: $.prompt_tokens: "[1]"'],
    [null, 'missing: $.prompt_tokens'],
    [1e-12, 'rounds to zero: $.prompt_tokens: "1e-12"'],
    [1e16, 'larger than 1000000000000000: $.prompt_tokens'],
  ])('%j is refused', (count, reason) => {
    const event = { ...LITELLM, data: { ...LITELLM.data, prompt_tokens: count } };
    expect(report(event).refused[0]?.reason).toContain(reason);
  });

  test.each([
    ['x'.repeat(257), 'longer than 256 characters: $.model'],
    ['a\u0000b', 'control characters: $.model'],
    [{}, 'not a text: $.model'],
  ])('a model %j, which no event can have', (model, reason) => {
    const event = { ...LITELLM, data: { ...LITELLM.data, model } };
    expect(report(event).refused[0]?.reason).toContain(reason);
  });

  test.each([
    ['x'.repeat(129), 'not usable as a tenant'],
    ['x'.repeat(1025), 'longer than 1024 characters'],
    [undefined, 'no caller'],
  ])('a caller %j', (subject, reason) => {
    expect(report({ ...LITELLM, subject }).refused[0]?.reason).toContain(reason);
  });

  test('no digit of a number is lost', () => {
    const text = JSON.stringify(LITELLM)
      .replace('"prompt_tokens":12', '"prompt_tokens":999999999999999.123456789')
      .replace('"completion_tokens":7', '"completion_tokens":"0.100000000000000000"');
    expect(tokensOf(report(text))).toStrictEqual({
      input: '999999999999999.123456789',
      output: '0.1',
    });
  });

  test('a name of every object is no field', () => {
    const rules = rulesOf({ type: 't', metrics: [{ metric: 'm', value: '$.toString.length' }] });
    expect(report({ ...LITELLM, type: 't' }, ONE, rules).refused).toMatchObject([
      { reason: 'missing: $.toString.length' },
    ]);
  });
});

describe('a rule of one’s own', () => {
  test('counts several metrics, with and without a value', () => {
    const rules = rulesOf({
      type: 'acme.image',
      subject: "$.billing['customer.id']",
      metrics: [
        { metric: 'images', value: '$.images[1].count', dimensions: { size: '$.size' } },
        { metric: 'jobs' },
      ],
    });
    const data = {
      billing: { 'customer.id': 7 },
      images: [{ count: 1 }, { count: 3.5 }],
      size: null,
    };
    expect(report({ ...LITELLM, type: 'acme.image', data }, ONE, rules).requests).toMatchObject([
      {
        subject: '7',
        tenant: '7',
        quantities: [
          { metric: 'images', dimensions: {}, quantity: '3.5' },
          { metric: 'jobs', dimensions: {}, quantity: '1' },
        ],
      },
    ]);
  });

  test('replaces fields of a preset, and the others are gone', () => {
    const rules = rulesOf({ preset: 'litellm', type: 'tokens' });
    const read = report([{ ...LITELLM, type: 'tokens' }, LITELLM, PRAXIS], JSON_TYPE, rules);
    expect(read).toMatchObject({ requests: [{ tenant: 'acme' }], refused: [], ignored: 2 });
  });

  test('a subject’s tenant comes from spec.ingest.subjects', () => {
    const rules = { ...RULES, subjects: [{ subject: 'u-*', tenant: 'globex' }] };
    expect(report(kong('k', 'request', 1), ONE, rules).requests).toMatchObject([
      { subject: 'consumer:u-1', tenant: 'globex' },
    ]);
  });

  test('an event without a time counts when it is received', () => {
    expect(report({ ...LITELLM, time: undefined }).requests).toMatchObject([{ at: NOW }]);
  });
});
