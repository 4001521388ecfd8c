/**
 * Returns an object with some members replaced. It also works for class instances: a spread would
 * lose their methods, and their private state needs the object itself as `this`.
 */
export function override<Base extends object, T extends Base = Base>(
  inner: T,
  members: { readonly [Key in keyof Base]?: Base[Key] | undefined },
): T {
  return new Proxy(inner, {
    get: (target, key): unknown => {
      if (key in members) return Reflect.get(members, key);
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
