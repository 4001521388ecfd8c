import { closestMatch } from 'leven';
import { adaptersFrom } from './adapters.ts';
import { assembleSettings, partsOf, type Parts } from './assemble-settings.ts';
import type { ConfigurableDestination, ValuesOf } from './configurable-destination.ts';
import { Secret } from '../model/secret.ts';
import { deepFreeze } from './immutable.ts';
import { invalid, type ParseProblem, problemText } from './parsers/parser.ts';
import { maskUrl } from './parsers/urls.ts';
import { removedTexts } from './removed-variables.ts';
import type { Settings } from './settings.ts';
import { defaultOf, type Setting, type SettingTable } from './table/setting.ts';
import { type Values, VARIABLES, variables } from './table/table.ts';

/** A process environment. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The effective value of one variable, safe to show: credentials are masked. */
export interface EffectiveValue {
  readonly name: string;
  /** Absent if it was not set and has no fixed default. */
  readonly value?: string;
  readonly origin: 'environment' | 'default';
}

export type LoadedEnvironment =
  | {
      readonly kind: 'loaded';
      readonly settings: Settings;
      readonly warnings: readonly string[];
      readonly effective: readonly EffectiveValue[];
    }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

/** Kubernetes puts these into every container for each Service of its namespace. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$/;

const SHORT_NAME = 8;

/** Shorter tokens cause a warning. */
const SHORT_TOKEN = 16;

/**
 * Reads the environment and reports all problems at once, each as `NAME: what is wrong: "value";
 * how to fix it`. An empty variable counts as unset. Results contain credentials only inside
 * `Secret`.
 */
export function loadEnvironment(
  environment: Environment,
  destinations: readonly ConfigurableDestination[],
): LoadedEnvironment {
  const schema = variables(destinations);
  const parsed: Record<string, unknown> = {};
  const faulty = new Set<string>();
  const problems = removedTexts(environment);
  const deprecations: string[] = [];
  const effective: EffectiveValue[] = [];
  for (const [name, variable] of schema) {
    const read = readVariable(name, variable, environment);
    if (read.kind === 'problem') {
      faulty.add(name);
      problems.push(read.text);
      // Continues with the default, so that variables that depend on this one are still checked.
      parsed[name] = defaultOf(variable);
      continue;
    }
    parsed[name] = read.value;
    effective.push(read.effective);
    if (variable.deprecated !== undefined && read.effective.origin === 'environment') {
      deprecations.push(`${name}: deprecated; ${variable.deprecated}`);
    }
  }
  // The parser of each variable read its value, so it has the declared type.
  const valuesOf = <S extends SettingTable>(own: S) =>
    Object.fromEntries(Object.keys(own).map((name) => [name, parsed[name]])) as ValuesOf<S>;
  const values = valuesOf(VARIABLES);
  const parts = partsOf(parsed);
  const { clusterName } = parts.identity;
  const adapters = adaptersFrom({ values, clusterName, valuesOf, faulty }, destinations);
  problems.push(...adapters.problems, ...ledgerTexts(values, parts));
  if (problems.length > 0) return { kind: 'invalid', problems };

  const webhookSecrets = Object.fromEntries(
    destinations.flatMap(({ type, alerts }) =>
      alerts === undefined ? [] : [[type, secretsIn(parsed[alerts.secretVariable])]],
    ),
  );
  // A meter delivers to no destination of its environment; a hub reads its own.
  const fed = values.ROLE === 'meter' ? [] : adapters.destinations;
  const settings = deepFreeze(assembleSettings(parts, values, fed, webhookSecrets));
  const known = schema.flatMap(([name, variable]) => [name, ...(variable.aliases ?? [])]);
  const warnings = [
    ...deprecations,
    ...(adapters.destinations.length > fed.length
      ? ['ADAPTERS: not fed from here with ROLE=meter; a hub feeds those of its own environment']
      : []),
    ...settingsWarnings(settings),
    ...typoWarnings(
      environment,
      known,
      destinations.flatMap(({ prefixes }) => prefixes),
    ),
  ];
  return { kind: 'loaded', settings, warnings, effective };
}

function secretsIn(value: unknown): readonly Secret[] {
  return Array.isArray(value) ? value.filter((item) => item instanceof Secret) : [];
}

type ReadVariable =
  | { readonly kind: 'value'; readonly value: unknown; readonly effective: EffectiveValue }
  | { readonly kind: 'problem'; readonly text: string };

function readVariable(name: string, variable: Setting, environment: Environment): ReadVariable {
  const given = [name, ...(variable.aliases ?? [])]
    .map((spelling) => ({ spelling, text: environment[spelling] ?? '' }))
    .filter(({ text }) => text !== '');
  const [first, second] = given;
  if (first === undefined) {
    const { default: value } = variable;
    const effective = { name, origin: 'default', value } as const;
    return { kind: 'value', value: defaultOf(variable), effective };
  }
  const text = first.text.trim();
  const shown = shownText(variable, text);
  if (second !== undefined && second.text.trim() !== text) {
    const problem = invalid(`differs from ${second.spelling}`, 'keep one of the two');
    return { kind: 'problem', text: problemText(first.spelling, problem, shown) };
  }
  const outcome =
    text === ''
      ? invalid('blank', 'give a value, or remove the variable')
      : variable.parser.parse(text);
  if (outcome.kind === 'problem') {
    return {
      kind: 'problem',
      text: problemText(first.spelling, quotable(variable, outcome), shown),
    };
  }
  const effective = { name, value: shown, origin: 'environment' } as const;
  return { kind: 'value', value: outcome.value, effective };
}

/** The problem without the quoted part of the input, if the input must not be shown. */
function quotable(variable: Setting, problem: ParseProblem): ParseProblem {
  return variable.shown === undefined ? problem : invalid(problem.what, problem.fix);
}

function ledgerTexts(values: Values, { identity, ledger }: Parts): readonly string[] {
  const { LEDGER_URL: urls, ROLE: role, REPLICATED: replicated } = values;
  const { databaseFile: file } = ledger;
  const problems: string[] = [];
  if (urls !== undefined && file !== undefined) {
    const problem = invalid('beside LEDGER_URL', 'keep one of the two');
    problems.push(problemText('LEDGER_URL_FILE', problem, file));
  }
  if (replicated && urls === undefined && file === undefined) {
    const fix = 'set LEDGER_URL, or run a single one with a volume';
    const problem = invalid('no database for several processes', fix);
    problems.push(problemText('REPLICATED', problem, 'true'));
  }
  if (role !== 'all' && urls === undefined && file === undefined) {
    const problem = invalid('only with a database', 'set LEDGER_URL (docs/how-to/fleet.md)');
    problems.push(problemText('ROLE', problem, role));
  }
  if (role === 'meter' && identity.regionFromNode) {
    const fix =
      'nodes of two clusters may be in one region, and event ids contain it: leave it out';
    problems.push(problemText('REGION_FROM_NODE', invalid('in a fleet', fix), 'true'));
  }
  if (role !== 'hub' && urls !== undefined && urls.length > 1) {
    const problem = invalid('several databases', 'name one, or set ROLE=hub');
    problems.push(problemText('LEDGER_URL', problem, '***'));
  }
  return problems;
}

/** Warnings about settings that work but are risky. */
function settingsWarnings(settings: Settings): readonly string[] {
  const warnings: string[] = [];
  if (settings.identity.region === 'default') {
    warnings.push('REGION: "default"; set one that no other control plane cluster has');
  }
  const { portalKeys, portalKeysFile } = settings.http;
  if (settings.http.apiTokens.length === 0 && settings.http.apiTokenFile === undefined) {
    const hasPortal = portalKeys.length > 0 || portalKeysFile !== undefined;
    warnings.push(
      hasPortal
        ? 'API_TOKEN: not set; nobody can make the tokens that PORTAL_KEYS sign'
        : 'API_TOKEN: not set; anyone who reaches the HTTP API can read all usage',
    );
  }
  const { apiTokens, ingestTokens } = settings.http;
  const tokens = [...apiTokens, ...ingestTokens.map(({ token }) => token)];
  if (tokens.some((token) => token.reveal().length < SHORT_TOKEN)) {
    const advice = `take at least ${SHORT_TOKEN} random characters`;
    warnings.push(`API_TOKEN or INGEST_TOKEN: easily guessed; ${advice}`);
  }
  return warnings;
}

/**
 * Warnings about unknown variables that look like misspelled ones; values are never shown.
 * `prefixes` are those that only destination types use.
 */
function typoWarnings(
  environment: Environment,
  known: readonly string[],
  prefixes: readonly string[],
): string[] {
  const names = new Set(known);
  const warnings: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (text === undefined || names.has(name) || SERVICE_LINK.test(name)) continue;
    const maxDistance = name.length < SHORT_NAME ? 1 : 2;
    const nearest = closestMatch(name, known, { maxDistance });
    if (nearest !== undefined) {
      warnings.push(`${name}: unknown variable, without effect; did you mean ${nearest}?`);
      continue;
    }
    if (prefixes.some((prefix) => name.startsWith(prefix)))
      warnings.push(`${name}: unknown variable, without effect`);
  }
  return warnings;
}

/** The text of a variable that is safe to show: never a credential. */
function shownText(variable: Setting, text: string): string {
  if (variable.shown === 'masked') return '***';
  return variable.shown === 'url' ? maskUrl(text) : text;
}
