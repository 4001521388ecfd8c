import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { cloudEventRules, presetRules } from '../settings/parsers/cloud-event-rules.ts';
import { pathText, valuePath } from '../settings/parsers/value-path.ts';
import { readReported } from './read-reported.ts';

const TYPES = [
  'application/cloudevents+json',
  'application/cloudevents-batch+json',
  'application/json',
];
const PRESETS = { cloudEvents: presetRules(), subjects: [{ subject: 'a*', tenant: 'acme' }] };

const count = fc.nat({ max: 2 ** 40 });
const usage = fc.record({
  input: count,
  read: count,
  write: count,
  output: count,
  reasoning: count,
  inputIncludesCached: fc.boolean(),
  outputIncludesReasoning: fc.boolean(),
  asText: fc.boolean(),
});

test('the kinds of a request add up to what its sender counted, or it is refused', () => {
  fc.assert(
    fc.property(usage, (one) => {
      const { inputIncludesCached, outputIncludesReasoning } = one;
      const rules = cloudEventRules().field?.([
        {
          type: 't',
          tokens: {
            input: '$.input',
            output: '$.output',
            cacheRead: '$.read',
            cacheWrite: '$.write',
            reasoning: '$.reasoning',
            inputIncludesCached,
            outputIncludesReasoning,
          },
        },
      ]);
      if (rules?.kind !== 'value') throw new Error(JSON.stringify(rules));
      const { input, read, write, output, reasoning } = one;
      const counts = { input, read, write, output, reasoning };
      const data = one.asText
        ? Object.fromEntries(Object.entries(counts).map(([name, value]) => [name, `${value}`]))
        : counts;
      const event = { specversion: '1.0', id: '1', source: 's', type: 't', subject: 'a', data };
      const outcome = readReported(
        Buffer.from(JSON.stringify(event)),
        { 'content-type': TYPES[0] },
        { cloudEvents: rules.value, subjects: [] },
        0,
      );
      if (outcome.kind !== 'reported') throw new Error(outcome.kind);
      const isImpossible =
        (inputIncludesCached && read + write > input) ||
        (outputIncludesReasoning && reasoning > output);
      expect(outcome.refused).toHaveLength(isImpossible ? 1 : 0);
      if (isImpossible) return;
      const total =
        input +
        output +
        (inputIncludesCached ? 0 : read + write) +
        (outputIncludesReasoning ? 0 : reasoning);
      const tokens = outcome.requests.flatMap(({ quantities }) =>
        quantities.filter(({ metric }) => metric === 'tenant_inference_tokens'),
      );
      expect(tokens.reduce((sum, { quantity }) => sum + Number(quantity), 0)).toBe(total);
      expect(new Set(tokens.map(({ dimensions }) => dimensions['token_type'])).size).toBe(
        tokens.length,
      );
      expect(tokens.every(({ quantity }) => quantity !== '0')).toBe(true);
      expect(outcome.ignored).toBe(total === 0 ? 1 : 0);
    }),
  );
});

/** An event of a preset's type in which anything may be wrong. */
const event = fc.record(
  {
    specversion: fc.constantFrom<unknown>('1.0', '1.0', '0.3', 1, null),
    id: fc.oneof(fc.string(), fc.anything()),
    source: fc.oneof(fc.string(), fc.anything()),
    type: fc.oneof(fc.constantFrom(...PRESETS.cloudEvents.map(({ type }) => type)), fc.anything()),
    subject: fc.oneof(fc.string(), fc.anything()),
    time: fc.oneof(fc.constant('2026-11-28T13:22:27Z'), fc.string()),
    schema_version: fc.constantFrom('v1', 'v2'),
    event_id: fc.string(),
    datacontenttype: fc.constantFrom('application/json', 'text/plain', null),
    data_base64: fc.base64String(),
    data: fc.dictionary(
      fc.constantFrom('prompt_tokens', 'completion_tokens', 'tokens', 'type', 'model', '__proto__'),
      fc.oneof(fc.nat(), fc.constantFrom('request', 'response', '7'), fc.anything()),
    ),
  },
  { requiredKeys: [] },
);

test('no body and no header makes the reading throw, and each event has one outcome', () => {
  const bodies = fc.oneof(
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    fc.array(event, { maxLength: 5 }).map((all) => Buffer.from(textOf(all))),
    event.map((one) => Buffer.from(textOf(one))),
  );
  const headers = fc.record(
    {
      'content-type': fc.oneof(fc.constantFrom(...TYPES), fc.string()),
      'ce-specversion': fc.constantFrom('1.0', '%'),
      'ce-id': fc.string(),
      'ce-type': fc.constantFrom('prompt', 'litellm_tokens'),
      'ce-source': fc.webUrl(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(bodies, headers, (body, sent) => {
      const outcome = readReported(body, sent, PRESETS, 0);
      if (outcome.kind !== 'reported') return;
      const { requests, refused, ignored } = outcome;
      expect(ignored).toBeGreaterThanOrEqual(0);
      expect(requests.every(({ key }) => /^[\w-]{22}$/.test(key))).toBe(true);
      for (const { quantities } of requests) {
        expect(quantities.length).toBeGreaterThan(0);
        expect(quantities.every(({ quantity }) => /^(?!0$)\d+(\.\d{1,9})?$/.test(quantity))).toBe(
          true,
        );
      }
      expect(refused.every(({ reason }) => /^\P{Cc}+$/u.test(reason))).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test('a path that is read is read the same from its own text', () => {
  const name = fc.stringMatching(/^[^'\p{Cc}]{1,20}$/u);
  const step = fc.oneof(name, fc.nat({ max: 9999 }));
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (path) => {
      expect(valuePath().parse(pathText(path))).toStrictEqual({ kind: 'value', value: path });
    }),
  );
});

function textOf(value: unknown): string {
  const text = JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'bigint' ? Number(inner) : inner,
  );
  return text ?? 'null';
}
