import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../telemetry/system-clock.ts';
import { CatchUp, type NewestVersion } from './catch-up.ts';
import type { Connection } from './connection.ts';
import type { ObjectEvent } from './list-and-watch.ts';
import { newestVersion } from './newest-version.ts';
import { createRevisionSurvey } from './revision-survey.ts';
import type { Bracket, RawObject } from './source.ts';

const PODS = '/api/v1/pods';
const NODES = '/api/v1/nodes';
const CLAIMS = '/api/v1/persistentvolumeclaims';
const STOP_MS = 600_000;
/** Dates are cut to whole seconds. */
const DATED_MS = 1_000;
/** From its creation to the moment at which a kubelet has taken it. */
const TAKEN_MS = 500;

let stop: AbortController;
beforeEach(() => {
  stop = new AbortController();
});
afterEach(() => stop.abort());

/** Gives out a version with each list, as an etcd that is written all the time. */
function etcd(first: number): () => string {
  let version = first;
  return () => {
    version += 1;
    return String(version);
  };
}

/** An API server whose kinds are in these etcds, and that has pods to tell that were missed. */
function apiServer(
  etcds: Readonly<Record<string, () => string>>,
  missed: Readonly<Record<string, readonly RawObject[]>>,
): Pick<Connection, 'request' | 'stream'> {
  return {
    request: async (path) => {
      const metadata = { resourceVersion: etcds[path]?.() };
      return { kind: 'ok', status: 200, body: { kind: 'List', metadata, items: [] } };
    },
    stream: async (path) => {
      const lines = (missed[path] ?? []).map((object) =>
        JSON.stringify({ type: 'MODIFIED', object }),
      );
      return { kind: 'ok', lines: linesOf(lines) };
    },
  };
}

async function* linesOf(lines: readonly string[]): AsyncIterable<string> {
  yield* lines;
}

/** A new object, and what became of it with the first word of its kubelet. */
function created(name: string, resourceVersion: string, at: number): readonly RawObject[] {
  const creationTimestamp = iso(at);
  const metadata = { uid: name, name, namespace: 'a', resourceVersion, creationTimestamp };
  const managedFields = [{ manager: 'kubelet', time: iso(at + TAKEN_MS) }];
  const later = String(Number(resourceVersion) + 1);
  return [{ metadata }, { metadata: { ...metadata, resourceVersion: later, managedFields } }];
}

function iso(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** Something that was removed while nobody looked, which its version alone could date. */
function removal(resourceVersion: string): ObjectEvent {
  const identity = { uid: 'data', namespace: 'a', name: 'data', resourceVersion };
  return {
    kind: 'object',
    deleted: true,
    object: { metadata: { ...identity } },
    identity,
  };
}

/** Where a watch of claims, which went on after a stop, says that a claim was removed. */
async function removedBetween(
  api: Pick<Connection, 'request' | 'stream'>,
  paths: readonly string[],
  versions: { readonly last: string; readonly removed: string },
  stoppedAt: number,
): Promise<{ readonly happened: Bracket | undefined; readonly at: number }> {
  const revisions = createRevisionSurvey({ connection: api, paths, clock: systemClock });
  const newest: NewestVersion = (signal) => newestVersion(api, CLAIMS, signal);
  const catchUp = new CatchUp(stoppedAt, { revisions, newest });
  const at = systemClock.now();
  await catchUp.begin(versions.last, 0, at, stop.signal);
  catchUp.opened(at);
  return { happened: catchUp.happened(removal(versions.removed), at), at };
}

describe('a kind that is kept in an etcd of its own', () => {
  test('W38: is not dated by versions of the other, which are far ahead of its own', async () => {
    const stoppedAt = systemClock.now() - STOP_MS;
    const api = apiServer(
      { [PODS]: etcd(5_000_000), [CLAIMS]: etcd(50) },
      { [PODS]: created('web', '4000000', stoppedAt + 1_000) },
    );
    const versions = { last: '40', removed: '45' };
    const { happened, at } = await removedBetween(api, [PODS], versions, stoppedAt);
    expect(happened).toEqual({ from: stoppedAt, until: at });
  });

  test('W38: is not dated by versions of the other, which are far behind its own', async () => {
    const stoppedAt = systemClock.now() - STOP_MS;
    const api = apiServer(
      { [PODS]: etcd(50), [CLAIMS]: etcd(5_000_000) },
      { [PODS]: created('web', '40', stoppedAt + 1_000) },
    );
    const versions = { last: '4000000', removed: '4000001' };
    const { happened, at } = await removedBetween(api, [PODS], versions, stoppedAt);
    expect(happened).toEqual({ from: stoppedAt, until: at });
  });

  test('dates nothing of the others', async () => {
    const stoppedAt = systemClock.now() - STOP_MS;
    const both = etcd(5_000_000);
    const api = apiServer(
      { [PODS]: both, [CLAIMS]: both, [NODES]: etcd(50) },
      // By this node everything in the other etcd would seem to be later than it was.
      { [NODES]: created('node', '45', stoppedAt + 4_000) },
    );
    const versions = { last: '4000000', removed: '4000001' };
    const { happened, at } = await removedBetween(api, [PODS, NODES], versions, stoppedAt);
    expect(happened).toEqual({ from: stoppedAt, until: at });
  });

  test('is not dated while the API server does not answer', async () => {
    const stoppedAt = systemClock.now() - STOP_MS;
    const pods = etcd(5_000_000);
    const api = apiServer(
      { [PODS]: pods },
      { [PODS]: created('web', '4000000', stoppedAt + 1_000) },
    );
    const versions = { last: '3999990', removed: '3999995' };
    const { happened, at } = await removedBetween(api, [PODS], versions, stoppedAt);
    expect(happened).toEqual({ from: stoppedAt, until: at });
  });
});

test('kinds in one etcd date each other', async () => {
  const stoppedAt = systemClock.now() - STOP_MS;
  const both = etcd(5_000_000);
  const api = apiServer(
    { [PODS]: both, [CLAIMS]: both },
    { [PODS]: created('web', '4000000', stoppedAt + 1_000) },
  );
  const versions = { last: '3999990', removed: '3999995' };
  const { happened } = await removedBetween(api, [PODS], versions, stoppedAt);
  expect(happened?.from).toBe(stoppedAt);
  expect(happened?.until).toBeLessThanOrEqual(stoppedAt + 1_000 + TAKEN_MS + DATED_MS);
});
