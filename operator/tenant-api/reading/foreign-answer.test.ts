import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { projectVolumeClaim } from '../../metering/timelines/retained-objects.ts';
import { projectNode } from '../../metering/timelines/node.ts';
import { insideTenant } from '../../metering/timelines/inside-tenant.ts';
import { projectPod } from '../../metering/timelines/pod.ts';
import { projectResourceSlice } from '../../metering/timelines/resource-slice.ts';
import { type ForeignAnswer, readForeignBytes } from './foreign-answer.ts';
import { readView } from './read-in-worker.ts';

const encoded = (text: string) => new TextEncoder().encode(text);
const pageOf = (plural: string, body: unknown): ForeignAnswer =>
  readForeignBytes({ what: 'page', plural, bytes: encoded(JSON.stringify(body)) });
const listOf = (...items: readonly unknown[]) => ({ metadata: { resourceVersion: '9' }, items });
const CREATED = '2026-03-01T12:00:00Z';
const meta = (name: string, more: object = {}) => ({
  name,
  uid: `uid-${name}`,
  resourceVersion: '7',
  creationTimestamp: CREATED,
  managedFields: [{ manager: 'kubelet', fieldsV1: { 'f:status': {} } }],
  ...more,
});

function itemsOf(answer: ForeignAnswer): readonly RawObject[] {
  const body = answer.kind === 'page' && isRecord(answer.body) ? answer.body : {};
  const items = body['items'];
  return Array.isArray(items) ? items.filter(isRecord) : [];
}

describe('what is read in another thread is not what is read here', () => {
  const api = {};
  test.each<[string, (object: RawObject) => unknown, object]>([
    [
      'nodes',
      projectNode,
      {
        metadata: meta('n', { labels: { 'nvidia.com/gpu.product': 'H100', zone: 'a' } }),
        spec: { taints: [{ key: 'k', timeAdded: CREATED }] },
        status: {
          capacity: { cpu: '8', memory: '64Gi', 'nvidia.com/gpu': '8' },
          allocatable: { 'nvidia.com/gpu': '7' },
          conditions: [{ type: 'Ready', status: 'False', lastTransitionTime: CREATED }],
          nodeInfo: { systemUUID: 'm', osImage: 'Linux' },
        },
      },
    ],
    [
      'pods',
      insideTenant(projectPod, api),
      {
        metadata: meta('p', { namespace: 'ml', labels: { app: 'web' } }),
        spec: {
          nodeName: 'n',
          containers: [
            { name: 'c', resources: { requests: { cpu: '100m', 'nvidia.com/gpu': '1' } } },
          ],
        },
        status: { phase: 'Running', startTime: CREATED },
      },
    ],
    [
      'persistentvolumeclaims',
      insideTenant(projectVolumeClaim, api),
      {
        metadata: meta('v', { namespace: 'ml' }),
        spec: { storageClassName: 'fast' },
        status: { phase: 'Bound', capacity: { storage: '10Gi' } },
      },
    ],
    [
      'resourceslices',
      (object) => projectResourceSlice(object, api),
      {
        metadata: meta('s'),
        spec: {
          driver: 'gpu.nvidia.com',
          nodeName: 'n',
          pool: { name: 'n', generation: 1, resourceSliceCount: 1 },
          devices: [
            {
              name: 'gpu-0',
              allowMultipleAllocations: true,
              attributes: { productName: { string: 'H100' }, uuid: { string: 'GPU-1' } },
              capacity: { memory: { value: '80Gi' } },
            },
          ],
        },
      },
    ],
  ])('%s', (plural, project, object) => {
    const [item] = itemsOf(pageOf(plural, listOf(object)));
    const here = project(JSON.parse(JSON.stringify(object)) as RawObject);
    expect(here).toBeDefined();
    expect(readView(api)(item ?? {})).toEqual(here);
    expect(JSON.stringify(item)).not.toContain('managedFields');
  });

  test('the end of an object, a bookmark, the end of a watch and a line that is none', () => {
    const lines = [
      { type: 'DELETED', object: { metadata: meta('n') } },
      {
        type: 'BOOKMARK',
        object: { kind: 'Node', metadata: { resourceVersion: '12', name: 'x' } },
      },
      { type: 'ERROR', object: { kind: 'Status', code: 410, message: 'canary' } },
      { type: 'SHOUTED', object: {} },
    ];
    const text = `${lines.map((line) => JSON.stringify(line)).join('\n')}\n\nnonsense\n`;
    const answer = readForeignBytes({ what: 'events', plural: 'nodes', bytes: encoded(text) });
    const read = answer.kind === 'events' ? answer.lines.map((line) => JSON.parse(line)) : [];
    expect(read).toMatchObject([
      { type: 'DELETED', object: { metadata: { name: 'n', uid: 'uid-n', resourceVersion: '7' } } },
      { type: 'BOOKMARK', object: { metadata: { resourceVersion: '12' } } },
      { type: 'ERROR', object: { code: 410 } },
      {},
      {},
    ]);
    expect(JSON.stringify(read)).not.toContain('canary');
  });
});

describe('what crosses over is more than was requested', () => {
  test.each<[string, unknown, object]>([
    [
      'a quarter of a million values',
      { ...listOf(), items: Array.from({ length: 250_000 }, () => 0) },
      { kind: 'failed', tooLarge: true },
    ],
    [
      'a thousand and one objects',
      listOf(...Array.from({ length: 1_001 }, () => ({}))),
      {
        kind: 'failed',
        reason: 'the answer has many more objects than requested',
      },
    ],
    [
      'no list',
      { items: 'none' },
      { kind: 'failed', reason: 'the answer is not a Kubernetes list' },
    ],
    [
      'a token without an end',
      { metadata: { resourceVersion: '1', continue: 'x'.repeat(10_000) }, items: [] },
      { kind: 'failed', reason: 'metadata.continue: not a text of at most 8 KiB' },
    ],
    [
      'labels without an end',
      listOf({
        metadata: meta('n', {
          labels: Object.fromEntries(
            Array.from({ length: 20_000 }, (_, index) => [`example.com/${index}`, 'x']),
          ),
        }),
      }),
      { kind: 'refused', reason: 'nodes "n": its stored view is longer than 262144' },
    ],
    [
      'what no API server sends',
      listOf({ metadata: meta('N') }),
      { kind: 'refused', reason: 'nodes metadata.name: not a DNS subdomain' },
    ],
  ])('%s', (_, body, expected) => {
    expect(pageOf('nodes', body)).toMatchObject(expected);
  });
});
