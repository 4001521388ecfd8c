import { expect, test } from 'vitest';
import { Circuit } from './circuit.ts';
import { eventsOf } from '../testing/harness.ts';

const entries = eventsOf(['a', 'b', 'c'], 2).map((event, index) => ({
  sequence: index + 1,
  event,
}));
const [a0, b0] = entries;

test('five failures in a row leave one event at a time, of one tenant after the other', () => {
  const circuit = new Circuit();
  for (let failure = 0; failure < 4; failure += 1) circuit.failed(entries, false);
  expect(circuit.choose(entries)).toHaveLength(6);
  circuit.failed(entries, false);
  const tenants = [1, 2, 3, 4].map(() => circuit.choose(entries).map(({ event }) => event.tenant));
  expect(tenants).toStrictEqual([['a'], ['b'], ['c'], ['a']]);
  circuit.succeeded();
  expect(circuit.choose(entries)).toHaveLength(6);
});

test('an event is suspected only when it fails again after others were accepted', () => {
  const circuit = new Circuit();
  if (a0 === undefined || b0 === undefined) throw new Error('no events');
  for (let failure = 0; failure < 10; failure += 1) circuit.failed([a0], false);
  circuit.succeeded();
  expect(circuit.poisonEvent(entries)).toBeUndefined();
  circuit.failed([a0], false);
  expect(circuit.poisonEvent(entries)).toBe(a0);
  circuit.clear(a0.sequence);
  expect(circuit.poisonEvent(entries)).toBeUndefined();
});

test('a suspect is tried after the others, and none of its tenant overtakes it', () => {
  const circuit = new Circuit();
  if (a0 === undefined) throw new Error('no events');
  circuit.failed([a0], false);
  expect(circuit.choose(entries).map(({ event }) => event.tenant)).toStrictEqual([
    'b',
    'c',
    'b',
    'c',
  ]);
  const rest = entries.filter(({ event }) => event.tenant === 'a');
  expect(circuit.choose(rest)).toStrictEqual([a0]);
});

test('a rate limit makes nobody a suspect', () => {
  const circuit = new Circuit();
  if (a0 === undefined) throw new Error('no events');
  for (let failure = 0; failure < 3; failure += 1) {
    circuit.failed([a0], true);
    circuit.succeeded();
  }
  expect(circuit.poisonEvent(entries)).toBeUndefined();
});

test('an event that failed twice while others were accepted keeps its tenant’s place', () => {
  const circuit = new Circuit();
  if (a0 === undefined) throw new Error('no events');
  circuit.failed([a0], false);
  circuit.succeeded();
  circuit.failed([a0], false);
  expect(circuit.poisonEvent(entries)).toBeUndefined();
  circuit.failed([a0], false);
  expect(circuit.poisonEvent(entries)).toBe(a0);
});

test('a failure before anything could be tried opens the circuit as well', () => {
  const circuit = new Circuit();
  for (let failure = 0; failure < 5; failure += 1) circuit.failed([], false);
  expect(circuit.isOpen()).toBe(true);
});

test('an open circuit tries a second event of one tenant, or something where nothing waits', () => {
  const circuit = new Circuit();
  circuit.trip();
  expect([circuit.isOpen(), circuit.failures()]).toStrictEqual([true, 5]);
  const ordered = entries.toSorted((a, b) => (a.event.tenant < b.event.tenant ? -1 : 1));
  const tried = [1, 2, 3].flatMap(() => circuit.choose(ordered));
  expect(tried.map(({ event }) => event.id)).toStrictEqual(['a-0', 'b-0', 'c-0']);
  expect(circuit.choose([])).toStrictEqual([]);
  for (let failure = 0; failure < 3; failure += 1) circuit.failed([], false);
  circuit.trip();
  expect(circuit.failures()).toBe(8);
});
