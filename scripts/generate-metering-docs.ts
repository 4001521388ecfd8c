import { readFileSync, writeFileSync } from 'node:fs';
import {
  type MeasuredMetric,
  type MeteredObject,
  METERS,
} from '../operator/metering/meters/meters.ts';
import { COLLECTOR_METRICS } from '../operator/model/catalog.ts';
import { replaceBetween } from './generate-architecture-docs.ts';

export const METERING_PAGE = new URL('../docs/explanation/metering.md', import.meta.url);

const MARKERS = {
  begin:
    '<!-- meters: generated from operator/metering/meters/meters.ts by `npm run generate:docs`; edit it there -->',
  end: '<!-- meters: end -->',
};

const OBJECTS: Readonly<Record<MeteredObject, string>> = {
  pods: 'Pod',
  nodes: 'Node',
  resourceClaims: 'ResourceClaim',
  resourceSlices: 'ResourceSlice',
  volumes: 'PersistentVolumeClaim',
  loadBalancers: 'Service',
  workloads: 'StatefulSet or Deployment',
};

/** Table of the measured metrics: unit, charged objects and scopes of each. */
export function metersTable(): string {
  const units = new Map(COLLECTOR_METRICS.map(({ code, unit }) => [code, unit]));
  const rows = Object.entries(METERS).map(
    ([code, metric]) => `| \`${code}\` | ${units.get(code) ?? ''} | ${cellsOf(metric)} |`,
  );
  const head = '| Metric | Unit | Charged for the life of each | Scopes |';
  return [head, '|---|---|---|---|', ...rows].join('\n');
}

function cellsOf({ meters }: MeasuredMetric): string {
  const charged = meters.map(({ objects: [first] }) => OBJECTS[first]);
  const scopes = meters.map(({ scope }) => `\`${scope}\``);
  return [charged, scopes].map((texts) => [...new Set(texts)].join(', ')).join(' | ');
}

/** Returns the page with the current table. Throws if the markers are missing. */
export function withMeters(page: string): string {
  return replaceBetween(page, MARKERS, metersTable(), 'docs/explanation/metering.md');
}

if (import.meta.main) {
  writeFileSync(METERING_PAGE, withMeters(readFileSync(METERING_PAGE, 'utf8')));
}
