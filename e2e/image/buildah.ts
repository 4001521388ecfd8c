import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What an image says about how it is started. */
export interface ImageConfig {
  readonly User: string;
  readonly Entrypoint: readonly string[];
}

export interface BuildOptions {
  readonly context: string;
  readonly image: string;
  readonly buildArguments: Readonly<Record<string, string>>;
  /** Directories of this machine, by where the steps see them. */
  readonly volumes: Readonly<Record<string, string>>;
}

/**
 * Builds and starts images without a daemon, as root, with a storage of its own. Steps and containers get a root directory
 * of their own and share this machine's network, so that they reach servers on its loopback addresses.
 */
export class Buildah {
  readonly #storage: readonly string[];

  constructor(directory: string) {
    const places = ['--root', join(directory, 'storage'), '--runroot', join(directory, 'state')];
    this.#storage = ['--storage-driver', 'vfs', ...places];
  }

  /** Makes an image of nothing but a directory. */
  async imageOf(directory: string, image: string): Promise<void> {
    const container = await this.#call('from', 'scratch');
    await this.#call('copy', '--quiet', container, directory, '/');
    await this.#call('commit', '--quiet', container, image);
    await this.#call('rm', container);
  }

  /** Carries out a Dockerfile; its output is in the error if it fails. */
  async build({ context, image, buildArguments, volumes }: BuildOptions): Promise<void> {
    await this.#call(
      'bud',
      '--isolation',
      'chroot',
      '--pull-never',
      '--tag',
      image,
      ...Object.entries(buildArguments).flatMap(([name, value]) => [
        '--build-arg',
        `${name}=${value}`,
      ]),
      ...mounts(volumes),
      context,
    );
  }

  async config(image: string): Promise<ImageConfig> {
    const text = await this.#call('inspect', '--type', 'image', image);
    return (JSON.parse(text) as { readonly OCIv1: { readonly config: ImageConfig } }).OCIv1.config;
  }

  /** A container of the image and where its root directory is mounted. */
  async container(image: string): Promise<{ readonly name: string; readonly root: string }> {
    const name = await this.#call('from', '--pull-never', image);
    return { name, root: await this.#call('mount', name) };
  }

  /** The command that starts a container as its image says. */
  command(
    container: string,
    { User, Entrypoint }: ImageConfig,
    environment: Readonly<Record<string, string>>,
    volumes: Readonly<Record<string, string>>,
  ): string[] {
    const variables = Object.entries(environment).flatMap(([name, value]) => [
      '--env',
      `${name}=${value}`,
    ]);
    const how = ['--isolation', 'chroot', '--user', User, ...variables, ...mounts(volumes)];
    return ['buildah', ...this.#storage, 'run', ...how, container, '--', ...Entrypoint];
  }

  async #call(...words: readonly string[]): Promise<string> {
    const { stdout } = await run('buildah', [...this.#storage, ...words], {
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout.trim();
  }
}

function mounts(volumes: Readonly<Record<string, string>>): string[] {
  return Object.entries(volumes).flatMap(([inside, outside]) => [
    '--volume',
    `${outside}:${inside}`,
  ]);
}
