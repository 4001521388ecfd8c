import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { TENANT_SOURCES } from '../model/tenant-sources.ts';
import { SOURCES } from './registry.ts';

const ROOT = new URL('../../', import.meta.url);
const READING = SOURCES.flatMap(({ name, resource }) =>
  resource === undefined ? [] : [[name, resource] as const],
);

test('a kind that settings name has no source, or another order than the one in which kinds give way', () => {
  expect(SOURCES.map(({ name }) => name)).toEqual(TENANT_SOURCES);
});

test.each(READING)('the component of %s gives other rights than it needs', (name, resource) => {
  const text = readFileSync(new URL(`config/components/${name}/rbac.yaml`, ROOT), 'utf8');
  const [role] = parseAllDocuments(text).map((document) => document.toJS() as unknown);
  expect(role).toMatchObject({
    kind: 'ClusterRole',
    rules: [
      { apiGroups: [resource.group], resources: [resource.plural], verbs: ['list', 'watch'] },
    ],
  });
});
