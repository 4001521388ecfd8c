import { parseArgs } from 'node:util';
import { errorText } from '../operator/model/error-text.ts';
import type { Command, Option } from './commands/command.ts';
import type { Failure } from './connection.ts';
import { FORMATS, type Format } from './output/print.ts';

/** Options of every command. */
export const COMMON: Readonly<Record<string, Option>> = {
  output: {
    type: 'string',
    short: 'o',
    value: 'FORMAT',
    meaning: `${FORMATS.join(', ')}; wide cuts nothing`,
  },
  namespace: {
    type: 'string',
    short: 'n',
    value: 'NAME',
    meaning: 'of the operator; meterfeed-system by default',
  },
  service: {
    type: 'string',
    value: 'NAME:PORT',
    meaning: 'of the operator; meterfeed:http by default',
  },
  context: { type: 'string', value: 'NAME', meaning: 'context of the kubeconfig' },
  kubeconfig: {
    type: 'string',
    value: 'FILE',
    meaning: 'the kubeconfig; as kubectl finds it by default',
  },
  url: { type: 'string', value: 'URL', meaning: 'address of the API, such as a port-forward' },
  'token-file': {
    type: 'string',
    value: 'FILE',
    meaning: 'holds one of API_TOKEN; or set METERFEED_TOKEN',
  },
  timeout: { type: 'string', value: 'SECONDS', meaning: 'for one answer; 60 by default' },
  help: { type: 'boolean', short: 'h', meaning: 'print this help' },
};

export interface Arguments {
  readonly kind: 'arguments';
  readonly positionals: readonly string[];
  readonly values: ReadonlyMap<string, readonly string[]>;
  readonly format: Format;
}

/** Reads what follows the name of a command. */
export function readArguments(command: Command, args: readonly string[]): Arguments | Failure {
  const options = { ...COMMON, ...command.options };
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: Object.fromEntries(
        Object.entries(options).map(([name, { type, short }]) => [
          name,
          { type, multiple: true, ...(short !== undefined && { short }) },
        ]),
      ),
    });
    const given = new Map(
      Object.entries(values).map(([name, value]) => [name, [value ?? []].flat().map(String)]),
    );
    for (const [name, all] of given) {
      if (all.length > 1 && options[name]?.multiple !== true) {
        return failed(`given more than once: --${name}: give it once`);
      }
    }
    return complete(command, positionals, given);
  } catch (error) {
    return failed(errorText(error));
  }
}

function complete(
  { name, positionals: wanted }: Command,
  positionals: readonly string[],
  values: ReadonlyMap<string, readonly string[]>,
): Arguments | Failure {
  const needed = wanted.filter((each) => !each.name.startsWith('['));
  const missing = needed[positionals.length];
  const isHelp = values.has('help');
  if (missing !== undefined && !isHelp) {
    return failed(`missing: ${missing.name}: kubectl meterfeed ${name} ${missing.name}`);
  }
  const tooMany = positionals[wanted.length];
  if (tooMany !== undefined) return failed(`one argument too many: "${tooMany}": leave it out`);
  const output = values.get('output')?.[0] ?? 'table';
  const format = FORMATS.find((each) => each === output);
  if (format === undefined) {
    return failed(`no such format: --output: "${output}": use one of ${FORMATS.join(', ')}`);
  }
  return { kind: 'arguments', positionals, values, format };
}

function failed(message: string): Failure {
  return { kind: 'failed', message };
}
