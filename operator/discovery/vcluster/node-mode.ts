import { readStrictYaml, type YamlNode } from '../../settings/strict-yaml.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import type { NodeMode } from '../tenant-cluster.ts';

/** Values of a large installation have a few KiB. */
const MOST_BYTES = 64 * 1024;

/**
 * The node mode of a platform instance: `privateNodes.enabled` of the values in its status, which
 * users of a project cannot edit. Undefined if it is absent or unreadable.
 */
export function nodeModeOf(instance: RawObject): NodeMode | undefined {
  const rendered = recordAt(recordAt(instance, 'status'), 'virtualCluster');
  const values = textAt(recordAt(rendered, 'helmRelease'), 'values');
  if (values === undefined) return undefined;
  const yaml = readStrictYaml(values, MOST_BYTES);
  if (yaml.kind === 'invalid') return undefined;
  const enabled = at(at(yaml.root, 'privateNodes'), 'enabled');
  return enabled?.kind === 'text' && enabled.text === 'true' ? 'private' : 'shared';
}

function at(node: YamlNode | undefined, key: string): YamlNode | undefined {
  return node?.kind === 'map' ? node.entries.get(key) : undefined;
}
