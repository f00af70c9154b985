// Registries: components, variants, schemes, faults and verbs add themselves with one line at namespace scope,
//   static const Registered<Variant> registered{make_variant<Tensors>({...})};
// in object libraries, so that the linker never drops them.
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace megatoken {

/// Every registered item of a kind, sorted by label() once all static objects exist; addresses are stable.
template <class T>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  void add(T item) { items_.push_back(std::move(item)); }
  std::vector<const T*> all() const {
    std::vector<const T*> pointers;
    for (const T& item : items_) pointers.push_back(&item);
    std::sort(pointers.begin(), pointers.end(), [](const T* a, const T* b) { return a->label() < b->label(); });
    return pointers;
  }
  /// nullptr when absent.
  const T* find(const std::string& label) const {
    for (const T& item : items_)
      if (item.label() == label) return &item;
    return nullptr;
  }

 private:
  std::deque<T> items_;
};

template <class T>
struct Registered {
  explicit Registered(T item) { Registry<T>::instance().add(std::move(item)); }
};

}  // namespace megatoken
