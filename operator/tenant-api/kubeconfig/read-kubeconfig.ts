import { readStrictYaml, type YamlMap, type YamlNode } from '../../settings/strict-yaml.ts';
import { type ForeignKubeconfig, readCluster, readUser, textOf } from './values.ts';

export type { ForeignKubeconfig } from './values.ts';

export type ReadKubeconfig =
  | { readonly kind: 'accepted'; readonly kubeconfig: ForeignKubeconfig }
  /** Each reason names the field and never quotes a value: any may be a credential. */
  | { readonly kind: 'refused'; readonly reason: string };

/** Usual kubeconfigs have 6 to 10 KiB. */
export const MOST_KUBECONFIG_BYTES = 64 * 1024;
const MOST_REASONS = 4;

/**
 * Reads a kubeconfig that a tenant can write
 * (docs/how-to/private-nodes.md#what-a-kubeconfig-may-say, docs/explanation/security.md#d-1). No
 * other code parses it. Only fields of the allow-list are accepted, as values; any other field
 * refuses the file. So nothing in it can run a program, read a file or choose another route to the
 * server.
 */
export function readForeignKubeconfig(text: string): ReadKubeconfig {
  const yaml = readStrictYaml(text, MOST_KUBECONFIG_BYTES);
  if (yaml.kind === 'invalid') return refused(yaml.problems);
  const problems: string[] = [];
  const reading = readRoot(yaml.root, problems);
  if (problems.length > 0 || reading === undefined) return refused(problems);
  return { kind: 'accepted', kubeconfig: reading };
}

function refused(problems: readonly string[]): ReadKubeconfig {
  const shown = problems.slice(0, MOST_REASONS).join('; ');
  const more = problems.length - MOST_REASONS;
  return { kind: 'refused', reason: more > 0 ? `${shown}; and ${more} more` : shown };
}

function readRoot(root: YamlNode, problems: string[]): ForeignKubeconfig | undefined {
  const file = mapOf(root, '', problems);
  if (file === undefined) return undefined;
  checkFields(file, FIELDS.file, '', problems);
  checkWord(file, 'apiVersion', 'v1', problems);
  checkWord(file, 'kind', 'Config', problems);
  const preferences = file.entries.get('preferences');
  if (preferences !== undefined && !isEmpty(preferences)) {
    problems.push('preferences: not accepted; leave it empty');
  }
  const cluster = onlyEntry(file, 'clusters', 'cluster', problems);
  const context = onlyEntry(file, 'contexts', 'context', problems);
  const user = onlyEntry(file, 'users', 'user', problems);
  if (cluster === undefined || context === undefined || user === undefined) return undefined;
  checkReferences(file, { cluster, context, user }, problems);
  const reached = readCluster(cluster.body, problems);
  const credential = readUser(user.body, problems);
  return reached === undefined ? undefined : { ...reached, ...credential };
}

/** The single entry of a list of named things: its name, and the content under its own key. */
interface Entry {
  readonly name: string;
  readonly body: YamlMap;
}

function onlyEntry(
  file: YamlMap,
  list: 'clusters' | 'contexts' | 'users',
  key: 'cluster' | 'context' | 'user',
  problems: string[],
): Entry | undefined {
  const node = file.entries.get(list);
  if (node?.kind !== 'list' || node.items.length !== 1) {
    const found = node?.kind === 'list' ? `${node.items.length} entries` : 'not a list';
    problems.push(`${list}: ${found}; leave exactly one`);
    // A second user is refused, but the problems of all users are still reported.
    if (node?.kind === 'list') for (const [index, item] of node.items.entries()) poll(item, index);
    return undefined;
  }
  const [item] = node.items;
  return item === undefined ? undefined : poll(item, 0);

  function poll(item: YamlNode, index: number): Entry | undefined {
    const where = `${list}[${index}]`;
    const entry = mapOf(item, where, problems);
    if (entry === undefined) return undefined;
    checkFields(entry, ['name', key], where, problems);
    const body = entry.entries.get(key);
    const inner = body === undefined ? undefined : mapOf(body, `${where}.${key}`, problems);
    if (body === undefined) problems.push(`${where}.${key}: missing`);
    if (inner === undefined) return undefined;
    checkFields(inner, FIELDS[key], `${where}.${key}`, problems);
    return { name: textOf(entry, 'name') ?? '', body: inner };
  }
}

function checkReferences(
  file: YamlMap,
  entries: { readonly cluster: Entry; readonly context: Entry; readonly user: Entry },
  problems: string[],
): void {
  const { cluster, context, user } = entries;
  if (textOf(file, 'current-context') !== context.name) {
    problems.push('current-context: does not name the context');
  }
  if (textOf(context.body, 'cluster') !== cluster.name) {
    problems.push('contexts[0].context.cluster: does not name the cluster');
  }
  if (textOf(context.body, 'user') !== user.name) {
    problems.push('contexts[0].context.user: does not name the user');
  }
}

function checkFields(
  node: YamlMap,
  accepted: readonly string[],
  where: string,
  problems: string[],
): void {
  for (const [field, value] of node.entries) {
    if (!accepted.includes(field)) {
      problems.push(`${path(where, field)}: not accepted: ${whyRefused(field)}`);
    } else if (value.kind !== 'text' && !STRUCTURES.has(field)) {
      problems.push(`${path(where, field)}: not text`);
    }
  }
}

const STRUCTURES = new Set([
  'clusters',
  'contexts',
  'users',
  'preferences',
  'cluster',
  'context',
  'user',
]);

function checkWord(file: YamlMap, field: string, word: string, problems: string[]): void {
  if (textOf(file, field) !== word) problems.push(`${field}: not "${word}"`);
}

function mapOf(node: YamlNode, where: string, problems: string[]): YamlMap | undefined {
  if (node.kind === 'map') return node;
  problems.push(where === '' ? 'not a kubeconfig' : `${where}: not a map of fields`);
  return undefined;
}

function isEmpty(node: YamlNode): boolean {
  if (node.kind === 'text') return node.text === '';
  return node.kind === 'list' ? node.items.length === 0 : node.entries.size === 0;
}

/** Returns a field's path for messages. Cuts unknown names: they are the tenant's own text. */
function path(where: string, field: string): string {
  const shown = /^[\w.-]{1,63}$/.test(field) ? field : '(unprintable)';
  return where === '' ? shown : `${where}.${shown}`;
}

/** Accepted fields of a kubeconfig, by place. */
const FIELDS = {
  file: ['apiVersion', 'kind', 'preferences', 'clusters', 'contexts', 'users', 'current-context'],
  cluster: ['server', 'certificate-authority-data', 'tls-server-name'],
  context: ['cluster', 'user', 'namespace'],
  user: ['token', 'client-certificate-data', 'client-key-data'],
} as const;

const READS_A_FILE = 'it would read a file of the operator';
const RUNS_A_PROGRAM = 'it would run a program in the operator';
const IMPERSONATES = 'it would act as somebody else; use a credential that is the reader’s own';
const PASSWORD = 'passwords are not used; give a token or a client certificate';

/** Why fields of other kubeconfigs are refused. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['exec', RUNS_A_PROGRAM],
  ['auth-provider', `${RUNS_A_PROGRAM}, or send a credential to an address of its choice`],
  ['tokenFile', READS_A_FILE],
  ['token-file', READS_A_FILE],
  ['certificate-authority', `${READS_A_FILE}; use certificate-authority-data`],
  ['client-certificate', `${READS_A_FILE}; use client-certificate-data`],
  ['client-key', `${READS_A_FILE}; use client-key-data`],
  ['proxy-url', 'it would send everything through an address of its choice'],
  ['insecure-skip-tls-verify', 'the other side could be anybody; use certificate-authority-data'],
  ['disable-compression', 'it is not used; leave it out'],
  ['as', IMPERSONATES],
  ['as-uid', IMPERSONATES],
  ['as-groups', IMPERSONATES],
  ['as-user-extra', IMPERSONATES],
  ['username', PASSWORD],
  ['password', PASSWORD],
]);

/** Returns why a field is refused, for the author of the kubeconfig. */
function whyRefused(field: string): string {
  return REASONS.get(field) ?? 'unknown here; leave it out';
}
