import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type CompletedEvent, completeEvent, NumberText } from './complete-event.ts';
import { deriveEventId } from './event-id.ts';
import type { UsageEvent } from './event.ts';
import { eventProblem } from './validate-event.ts';

const completion = {
  recordedAt: '2026-11-21T09:05:00.000Z',
  source: 'ingest:api',
  region: 'default',
  unitOf: (metric: string) => (metric === 'tokens_used' ? 'tokens' : undefined),
};

const minimal = {
  tenant: 'acme',
  metric: 'tokens_used',
  quantity: 1500,
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
};

function complete(change: Record<string, unknown>): CompletedEvent {
  return completeEvent({ ...minimal, ...change }, completion);
}

function completed(change: Record<string, unknown>): UsageEvent {
  const outcome = complete(change);
  if (outcome.kind === 'invalid') throw new Error(outcome.problem);
  return outcome.event;
}

function problemOf(change: Record<string, unknown>): string {
  const outcome = complete(change);
  return outcome.kind === 'invalid' ? outcome.problem : 'valid';
}

describe('an event pushed in', () => {
  test('is filled with what it leaves out', () => {
    const event = completed({});
    expect(event).toStrictEqual({
      schema_version: 'svc.usage/v1',
      id: deriveEventId(event),
      tenant: 'acme',
      metric: 'tokens_used',
      quantity: '1500',
      unit: 'tokens',
      window_start: '2026-11-21T09:00:00Z',
      window_end: '2026-11-21T09:01:00Z',
      recorded_at: '2026-11-21T09:05:00.000Z',
      region: 'default',
      source: 'ingest:api',
    });
  });

  test('cannot say when or by whom it was recorded, and unknown fields are ignored', () => {
    const event = completed({ recorded_at: 'never', source: 'collector', colour: 'blue' });
    expect(event.recorded_at).toBe('2026-11-21T09:05:00.000Z');
    expect(event.source).toBe('ingest:api');
    expect(event).not.toHaveProperty('colour');
  });

  test('is the same event whether empty values are sent or left out', () => {
    const empty = { sku: '', project: null, dimensions: { zone: '', node: null }, properties: {} };
    expect(completed(empty)).toStrictEqual(completed({}));
  });

  test('is the same event however its times are written', () => {
    const window = {
      window_start: '2026-11-21T10:30:00.000+01:30',
      window_end: '2026-11-21t09:01:00z',
    };
    expect(completed(window)).toStrictEqual(completed({}));
  });

  test('keeps its own id, and may send the derived one', () => {
    expect(completed({ id: 'order-7' }).id).toBe('order-7');
    expect(completed({ id: deriveEventId(completed({})) })).toStrictEqual(completed({}));
  });

  test('cannot take an id that belongs to another event', () => {
    const id = 'svc1_0123456789abcdef0123456789abcdef';
    expect(complete({ id })).toStrictEqual({
      kind: 'invalid',
      id,
      problem: `not the derived id: id: "${id}": leave it out or send ${completed({}).id}`,
    });
  });

  test('keeps digits that a double would lose', () => {
    const quantity = new NumberText('123456789012.123456789');
    expect(completed({ quantity }).quantity).toBe('123456789012.123456789');
  });

  test.each([
    [
      { metric: 'unheard_of' },
      'unknown metric: "unheard_of": declare it in CUSTOM_METRICS or spec.customMetrics of the MeteringPolicy',
    ],
    [{ metric: undefined }, 'not of type string: metric: undefined'],
    [{ quantity: '5' }, 'not a number of at least 0: quantity: "5"'],
    [{ quantity: -1 }, 'not a number of at least 0: quantity: -1'],
    [{ quantity: JSON.parse('1e400') }, 'not a number of at least 0: quantity: null'],
    [{ quantity: 2e15 }, 'larger than 1000000000000000: quantity: "2000000000000000"'],
    [{ id: 7 }, 'not of type string: id: 7'],
    [{ window_start: '2026-11-21T09:00:00.5Z' }, 'such as 2026-11-21T09:00:00Z: window_start: "'],
    [{ window_start: '2026-11-21 09:00' }, 'such as 2026-11-21T09:00:00Z: window_start: "'],
    [{ window_end: 'tomorrow' }, 'not a UTC time to the second such as 2026-11-21T09:00:00Z'],
    [{ window_start: 1_795_251_600 }, 'not of type string: window_start: 1795251600'],
    [{ dimensions: 'zone=a' }, 'not of type object: dimensions: "zone=a"'],
  ])('is refused: %j', (change, problem) => {
    expect(problemOf(change)).toContain(problem);
  });

  test('cannot reach a prototype, whatever its keys are called', () => {
    const keys = fc.constantFrom('__proto__', 'constructor', 'prototype', 'zone', 'toString');
    const odd = fc.dictionary(keys, fc.oneof(fc.string(), fc.constant({ polluted: 'yes' })));
    fc.assert(
      fc.property(odd, odd, odd, (top, dimensions, properties) => {
        const text = JSON.stringify({ ...minimal, ...top, dimensions, properties });
        const outcome = completeEvent(JSON.parse(text), completion);
        expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
        if (outcome.kind === 'invalid') return;
        expect(Object.getPrototypeOf(outcome.event)).toBe(Object.prototype);
        expect(eventProblem(outcome.event)).toBeUndefined();
      }),
    );
  });

  test('gets an answer and never an exception, whatever is sent', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (input, value) => {
        expect(completeEvent(input, completion).kind).toBe('invalid');
        expect(complete({ dimensions: value, properties: value, sku: value })).toHaveProperty(
          'kind',
        );
      }),
    );
  });
});
