import { readFileSync } from 'node:fs';
import { errorText } from '../operator/model/error-text.ts';
import { type Arguments, readArguments } from './arguments.ts';
import type { Command, Given } from './commands/command.ts';
import { COMMANDS } from './commands/commands.ts';
import { COMPLETION_SCRIPT, completions } from './completion.ts';
import { type Api, connect, type Failure } from './connection.ts';
import { helpOf, overview } from './help.ts';
import { withoutControls } from './output/characters.ts';
import { print } from './output/print.ts';

/** Everything that the plugin uses of its process. */
export interface Terminal {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Columns of the terminal; undefined where the output goes elsewhere. */
  readonly columns: number | undefined;
  readonly now: () => number;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly version: string;
}

const NARROWEST = 40;
const DEFAULT_WIDTH = 80;
const DEFAULT_TIMEOUT_S = 60;
const COMPLETION_TIMEOUT_MS = 2000;

/**
 * Runs one command line and resolves to the exit code: 0, 1 when it failed, 2 when the arguments
 * are wrong. No control character of a server or an argument reaches the terminal.
 */
export async function run(args: readonly string[], given: Terminal): Promise<number> {
  const terminal: Terminal = {
    ...given,
    out: (text) => given.out(withoutControls(text)),
    err: (text) => given.err(withoutControls(text)),
  };
  const [name, ...rest] = args;
  const { out } = terminal;
  switch (name) {
    case undefined:
    case 'help':
    case '--help':
    case '-h':
      out(overview());
      return name === undefined ? 2 : 0;
    case 'version':
      out(`${terminal.version}\n`);
      return 0;
    case 'completion':
      out(COMPLETION_SCRIPT);
      return 0;
    case '__complete': {
      const words = await completions(rest, (command, typed) => quietApi(command, typed, terminal));
      out(words.map((word) => `${word}\n`).join(''));
      return 0;
    }
    default:
      return runCommand(name, rest, terminal);
  }
}

async function runCommand(
  name: string,
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    const known = COMMANDS.map((each) => each.name).join(', ');
    terminal.err(`no such command: "${name}": use one of ${known}\n`);
    return 2;
  }
  const given = readArguments(command, args);
  if (given.kind === 'failed') {
    terminal.err(`${given.message}\nkubectl meterfeed ${name} --help lists the options.\n`);
    return 2;
  }
  if (given.values.has('help')) {
    terminal.out(helpOf(command));
    return 0;
  }
  const connected = connectFor(given, terminal);
  if (connected.kind === 'failed') return failed(connected, terminal);
  const answer = await command.run(givenTo(given, connected.api, terminal.now()));
  if (answer.kind === 'failed') return failed(answer, terminal);
  const width = Math.max(terminal.columns ?? DEFAULT_WIDTH, NARROWEST);
  terminal.out(print(answer, given.format, width));
  return 0;
}

function failed({ message }: Failure, { err }: Terminal): number {
  err(`${message}\n`);
  return 1;
}

function givenTo({ positionals, values }: Arguments, api: Api, now: number): Given {
  return {
    api,
    positionals,
    option: (name) => values.get(name)?.at(-1),
    options: (name) => values.get(name) ?? [],
    isSet: (name) => values.has(name),
    now,
  };
}

function connectFor(
  { values }: Arguments,
  { environment }: Terminal,
  timeoutMs?: number,
): ReturnType<typeof connect> {
  const option = (name: string): string | undefined => values.get(name)?.at(-1);
  const seconds = option('timeout') ?? String(DEFAULT_TIMEOUT_S);
  if (!/^[1-9][0-9]{0,4}$/.test(seconds)) {
    return { kind: 'failed', message: `not a number of seconds: --timeout: "${seconds}"` };
  }
  const url = option('url');
  if (url !== undefined && !/^https?:\/\/./.test(url)) {
    return { kind: 'failed', message: `not an http or https address: --url: "${url}"` };
  }
  const token = readToken(option('token-file'), environment['METERFEED_TOKEN']);
  if (token.kind === 'failed') return token;
  return connect({
    namespace: option('namespace') ?? 'meterfeed-system',
    service: option('service') ?? 'meterfeed:http',
    timeoutMs: timeoutMs ?? Number(seconds) * 1000,
    url,
    kubeconfig: option('kubeconfig'),
    context: option('context'),
    token: token.value,
  });
}

/**
 * The token of a file's first line, or of the environment. On the command line everybody could read
 * it.
 */
function readToken(
  file: string | undefined,
  given: string | undefined,
): { readonly kind: 'token'; readonly value: string | undefined } | Failure {
  if (file === undefined) return { kind: 'token', value: given === '' ? undefined : given };
  try {
    const [line = ''] = readFileSync(file, 'utf8').split('\n');
    if (line.trim() !== '') return { kind: 'token', value: line.trim() };
    return { kind: 'failed', message: `no token in its first line: --token-file: "${file}"` };
  } catch (error) {
    return { kind: 'failed', message: `--token-file: "${file}": ${errorText(error)}` };
  }
}

/** The API for completion; undefined, without an error, when there is none. */
function quietApi(command: Command, args: readonly string[], terminal: Terminal): Api | undefined {
  const given = readArguments({ ...command, positionals: command.positionals.map(optional) }, args);
  if (given.kind === 'failed') return undefined;
  const connected = connectFor(given, terminal, COMPLETION_TIMEOUT_MS);
  return connected.kind === 'api' ? connected.api : undefined;
}

function optional<T extends { readonly name: string }>(positional: T): T {
  return { ...positional, name: `[${positional.name}]` };
}
