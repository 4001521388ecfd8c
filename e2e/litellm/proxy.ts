import { randomUUID } from 'node:crypto';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import { freePort } from '../control-plane/ports.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { preparePython } from '../python/environment.ts';

const GUIDE = resolve(import.meta.dirname, '../../docs/how-to/ai-gateways.md');
const EXTENSIONS = 'extensions.py';
/** The address of meterfeed and the token in the guide. */
const PLACES = { address: 'http://meterfeed.meterfeed-system:8080', token: '<token>' };

export const REQUIREMENTS = join(import.meta.dirname, 'requirements.txt');

export interface LiteLLMOptions {
  /** For its configuration, log and spend log. */
  readonly directory: string;
  /** The server of the models, with the API of OpenAI. */
  readonly modelServer: string;
  readonly models: readonly string[];
  /** Where its events go: address and token. */
  readonly meterfeed: typeof PLACES;
}

export interface LiteLLM extends ManagedProcess {
  readonly url: string;
  /** The rows of its spend log so far. */
  spendLog(): Promise<readonly SpendRow[]>;
}

/** The fields of a row in LiteLLM's spend log that are compared. */
export interface SpendRow {
  readonly user: string;
  readonly model: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

/** The lines of the guide. */
interface Snippet {
  readonly litellm_settings: { readonly callbacks: readonly string[] };
  readonly environment_variables: Readonly<Record<string, string>>;
}

/** Starts the proxy of LiteLLM with the configuration of our guide. The key `sk-<user>` belongs to that user. */
export async function startLiteLLM(options: LiteLLMOptions): Promise<LiteLLM> {
  const { directory } = options;
  const file = (name: string): string => join(directory, name);
  const program = join(await preparePython(REQUIREMENTS), 'bin/litellm');
  await copyFile(join(import.meta.dirname, EXTENSIONS), file(EXTENSIONS));
  await writeFile(file('config.yaml'), JSON.stringify(await configuration(options)));
  await writeFile(file('spend.ndjson'), '');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = await startProcess({
    name: 'litellm',
    command: program,
    args: ['--config', file('config.yaml'), '--host', '127.0.0.1', '--port', String(port)],
    env: {
      HOME: directory,
      PATH: process.env['PATH'],
      SPEND_LOG: file('spend.ndjson'),
      LITELLM_MASTER_KEY: `sk-${randomUUID()}`,
      // Asks nobody for prices.
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_LOG: 'WARNING',
    },
    cwd: directory,
    logFile: file('litellm.log'),
    pidFile: file('litellm.pid'),
    ready: async () => (await fetch(`${url}/health/readiness`)).ok,
    startTimeoutMs: 180_000,
  });
  const spendLog = async (): Promise<readonly SpendRow[]> => {
    const lines = (await readFile(file('spend.ndjson'), 'utf8')).split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as SpendRow);
  };
  return { ...started, url, spendLog };
}

/** The lines of the guide, with models, owners of keys, and the spend log in a file. JSON is YAML. */
async function configuration(options: LiteLLMOptions): Promise<object> {
  const guide = await readFile(GUIDE, 'utf8');
  const section = guide.slice(guide.indexOf('**LiteLLM**'));
  const [, lines = ''] = /^```yaml\n(.*?)^```/ms.exec(section) ?? [];
  const { address, token } = options.meterfeed;
  const snippet = parse(
    lines.replace(PLACES.address, address).replace(PLACES.token, token),
  ) as Snippet;
  return {
    ...snippet,
    litellm_settings: {
      callbacks: [...snippet.litellm_settings.callbacks, 'extensions.spend_log'],
    },
    general_settings: { custom_auth: 'extensions.user_of_key' },
    model_list: options.models.map((model) => ({
      model_name: model,
      litellm_params: {
        model: `openai/${model}`,
        api_base: `${options.modelServer}/v1`,
        api_key: 'none',
      },
    })),
  };
}
